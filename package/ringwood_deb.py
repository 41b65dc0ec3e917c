#!/usr/bin/env python3
"""Makes the .deb of what `cmake --install` gives, for the release of Debian on which it runs.

    package/ringwood_deb.py BUILD DIRECTORY        # prints the package's path
"""

import gzip
import os
import pathlib
import sys
import tempfile

from ringwood_wheel import LICENCE, ROOT, call, install, version_of

ABOUT = """\
Ringwood {version}
docs/ of the source tree has the documentation; `man ringwood` every flag.
"""
COPYRIGHT = """\
The licence of Ringwood: {licence}.
"""


def complete(top, version):
    """What Debian has elsewhere or otherwise than `cmake --install`: its Python finds the package, manuals are
    compressed."""
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


def make(build, directory):
    version = version_of(build)
    place = pathlib.Path(directory).resolve()
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ringwood-deb-") as temporary:
        top = pathlib.Path(temporary) / "installed"
        install(build, top / "usr")
        complete(top, version)
        call("env", f"RINGWOOD_INSTALLED={top}", f"RINGWOOD_VERSION={version}", "cpack", "-G", "DEB",
             "--config", ROOT / "package" / "deb.cmake", "-B", pathlib.Path(temporary) / "made")
        made = next((pathlib.Path(temporary) / "made").glob("*.deb"))
        result = place / made.name
        result.write_bytes(made.read_bytes())
    return result


if __name__ == "__main__":
    print(make(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]))
