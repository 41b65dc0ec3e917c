#!/usr/bin/env python3
"""Makes the .deb of what `cmake --install` gives, with the shared libraries of the wheel: gRPC, protobuf, RocksDB and
UCX have other names in each release of Debian. So one package serves all releases from the one on which it is made.

    package/ringwood_deb.py BUILD DIRECTORY        # prints the package's path; needs auditwheel and patchelf
"""

import gzip
import os
import pathlib
import shutil
import sys
import tempfile

from ringwood_wheel import HOSTS_OWN, LICENCE, ROOT, call, complete, install, version_of

# Has one name in all releases, and Debian mends it.
DEBIANS_OWN = ("libssl.so.3", "libcrypto.so.3")

ABOUT = """\
Ringwood {version}
docs/ of the source tree has the documentation; `man ringwood` every flag. In examples/ are trainers in C and C++, a
unit for systemd and manifests for Kubernetes; `python3 -m ringwood.examples.minimal` is one of those in Python.
"""
COPYRIGHT = """\
The licence of Ringwood: {licence}.
Beside this file, in licences/, are those of the code that it brings along.
"""


def bring_libraries(top, whole):
    """Of the wheel's folder: its libraries, where the loader looks for nobody else, and what uses them in place of what
    was installed."""
    usr = top / "usr"
    libraries = usr / "lib" / "ringwood" / "libraries"
    shutil.copytree(whole / "ringwood.libs", libraries)
    for user, source in ((usr / "bin" / "ringwood", "bin/ringwood"),
                         (next(usr.glob("lib*/**/libringwood.so")).resolve(), "libringwood.so")):
        shutil.copy2(whole / "ringwood" / source, user)
        call("patchelf", "--set-rpath", "$ORIGIN/" + os.path.relpath(libraries, user.parent), user)


def write_control(folder, version):
    """One library is for other programs: what was built against it works with a newer one."""
    folder.mkdir()
    (folder / "shlibs").write_text(f"libringwood 0 ringwood (>= {version})\n")


def place(top, version):
    """What Debian has elsewhere or otherwise than `cmake --install`: its Python finds the package, manuals are
    compressed, what is to be copied from is with the documents."""
    usr = top / "usr"
    package = next(usr.glob("lib*/**/ringwood/python/ringwood"))
    python = usr / "lib" / "python3" / "dist-packages"
    python.mkdir(parents=True)
    os.symlink(os.path.relpath(package, python), python / "ringwood")
    for manual in usr.glob("share/man/man1/*.1"):
        with gzip.GzipFile(f"{manual}.gz", "wb", mtime=0) as compressed:
            compressed.write(manual.read_bytes())
        manual.unlink()
    about = usr / "share" / "doc" / "ringwood"
    about.mkdir(parents=True)
    (about / "README").write_text(ABOUT.format(version=version))
    (about / "copyright").write_text(COPYRIGHT.format(licence=LICENCE))
    (about / "changelog").write_bytes((ROOT / "CHANGELOG.md").read_bytes())
    for folder in ("examples/libtorch", "examples/grafana", "deploy/systemd", "deploy/kubernetes"):
        shutil.copytree(ROOT / folder, about / "examples" / pathlib.Path(folder).name)
    for example in (ROOT / "examples").glob("*.c"):
        shutil.copy2(example, about / "examples")


def make(build, directory):
    version = version_of(build)
    directory = pathlib.Path(directory).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ringwood-deb-") as temporary:
        top, work = pathlib.Path(temporary) / "installed", pathlib.Path(temporary) / "work"
        install(build, top / "usr")
        work.mkdir()
        whole, _ = complete(top / "usr", version, work, HOSTS_OWN + DEBIANS_OWN)
        bring_libraries(top, whole)
        place(top, version)
        shutil.copytree(whole / f"ringwood-{version}.dist-info" / "licenses", top / "usr/share/doc/ringwood/licences")
        write_control(work / "control", version)
        call("env", f"RINGWOOD_INSTALLED={top}", f"RINGWOOD_CONTROL={work / 'control'}", f"RINGWOOD_VERSION={version}",
             "cpack", "-G", "DEB", "--config", ROOT / "package" / "deb.cmake", "-B", pathlib.Path(temporary) / "made")
        made = next((pathlib.Path(temporary) / "made").glob("*.deb"))
        result = directory / made.name
        result.write_bytes(made.read_bytes())
    return result


if __name__ == "__main__":
    print(make(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]))
