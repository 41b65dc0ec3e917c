#!/usr/bin/env python3
"""Makes the wheel of what `cmake --install` gives: the Python package with the library, the program and all shared
libraries that a bare system lacks.

    package/ringwood_wheel.py BUILD DIRECTORY        # prints the wheel's path; needs auditwheel and patchelf

The package works with every Python from 3.11 on: nothing in it is compiled against one.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import licences

ROOT = pathlib.Path(__file__).resolve().parent.parent
MACHINE = platform.machine()  # x86_64 or aarch64: the build's own
PLATFORM = f"manylinux_2_36_{MACHINE}"  # of Debian 12; auditwheel finds the oldest that fits
# Drivers of the host's own network cards: another version of them would not fit the kernel's.
HOSTS_OWN = ("libibverbs.so.1", "libmlx5.so.1", "librdmacm.so.1")

# Both packages say it.
LICENCE = "none has been chosen yet"

METADATA = """\
Metadata-Version: 2.1
Name: ringwood
Version: {version}
Summary: Gradient exchange for clusters whose network is slower than their GPUs
License: {licence}
Requires-Python: >=3.11
Requires-Dist: numpy
Provides-Extra: torch
Requires-Dist: torch>=2.1; extra == "torch"
Description-Content-Type: text/markdown

{readme}"""
WHEEL = f"Wheel-Version: 1.0\nGenerator: ringwood\nRoot-Is-Purelib: false\nTag: py3-none-linux_{MACHINE}\n"
ENTRY_POINTS = "[console_scripts]\nringwood = ringwood.__main__:main\n"


def call(*command):
    subprocess.run([str(word) for word in command], check=True)


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def install(build, place):
    """What a user gets, without debug symbols."""
    call("cmake", "--install", build, "--prefix", place, "--strip")


def version_of(build):
    return re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1]


def fill(place, installed, version):
    """The wheel's folders, as auditwheel takes them."""
    package = next(installed.glob("lib*/**/ringwood/python/ringwood"))
    shutil.copytree(package, place / "ringwood")
    library = next(installed.glob("lib*/**/libringwood.so")).resolve()
    shutil.copy2(library, place / "ringwood" / "libringwood.so")
    (place / "ringwood" / "bin").mkdir()
    shutil.copy2(installed / "bin" / "ringwood", place / "ringwood" / "bin" / "ringwood")
    if (installed / "share").is_dir():  # completion and manual: below the environment's own share/
        shutil.copytree(installed / "share", place / f"ringwood-{version}.data" / "data" / "share")
    facts = place / f"ringwood-{version}.dist-info"
    facts.mkdir()
    readme = (ROOT / "README.md").read_text()
    (facts / "METADATA").write_text(METADATA.format(version=version, licence=LICENCE, readme=readme))
    (facts / "WHEEL").write_text(WHEEL)
    (facts / "entry_points.txt").write_text(ENTRY_POINTS)
    record(facts)


def record(facts):
    """RECORD: every file with its digest and size."""
    place, lines = facts.parent, []
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_file() and path.name != "RECORD":
            digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{path.stat().st_size}\n")
    lines.append(f"{facts.name}/RECORD,,\n")
    (facts / "RECORD").write_text("".join(lines))


def pack(place, wheel):
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(place.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(place).as_posix())


def unpack(wheel, place):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = archive.extract(entry, place)
            os.chmod(path, entry.external_attr >> 16 & 0o777 or 0o644)


def add_ucx_modules(place, program):
    """UCX opens its transports by name, from the folder ucx/ beside its own library: auditwheel does not see them. With
    its library's whole suffix, since that is a file and no link."""
    ucs = re.search(r"libucs\.so\.0 => (\S+)", output("ldd", program))[1]
    libraries = place / "ringwood.libs"
    modules = libraries / "ucx"
    modules.mkdir()
    found = sorted(pathlib.Path(ucs).resolve().parent.glob("ucx/*.so.0.0.0"))
    renamed = {name.split("-")[0]: name for name in os.listdir(libraries)}  # libucs-1a2b3c4d.so.0.0.0 of libucs
    renamed |= {module.name.split(".so")[0]: module.name for module in found}  # one needs another
    for module in found:
        copy = modules / module.name
        shutil.copy2(module, copy)
        for needed in output("patchelf", "--print-needed", copy).split():
            if new := renamed.get(needed.split(".so")[0]):
                call("patchelf", "--replace-needed", needed, new, copy)
        call("patchelf", "--set-rpath", "$ORIGIN:$ORIGIN/..", copy)
        call("strip", "--strip-unneeded", copy)


def rename_ucx(place, work):
    """The functions of the wheel's UCX get names of their own. A process may have the system's UCX in its global scope,
    too: Open MPI brings it, which Debian's PyTorch and mpi4py load. By the same names each would call the other's."""
    libraries = sorted((place / "ringwood.libs").glob("libuc[mpst]-*"))
    names = {line.split()[-1].split("@")[0] for library in libraries
             for line in output("nm", "-D", "--defined-only", library).splitlines()}
    names -= {"_init", "_fini", "ucs_module_global_init"}  # the last one is looked for by its name
    renamed = work / "renamed"
    renamed.write_text("".join(f"{name} ringwood_own_{name}\n" for name in sorted(names)))
    package = place / "ringwood"
    for user in (*libraries, *(place / "ringwood.libs" / "ucx").iterdir(), package / "libringwood.so",
                 package / "bin" / "ringwood"):
        call("patchelf", "--rename-dynamic-symbols", renamed, user)


def complete(installed, version, work, left_out=HOSTS_OWN):
    """The folder of the wheel's files, with all libraries but those that are left out, in `work`; and its name."""
    fill(work / "plain", installed, version)
    plain = work / f"ringwood-{version}-py3-none-linux_{MACHINE}.whl"
    pack(work / "plain", plain)
    excluded = [word for name in left_out for word in ("--exclude", name)]
    call("auditwheel", "repair", "--plat", PLATFORM, *excluded, "--wheel-dir", work / "repaired", plain)
    repaired = next((work / "repaired").glob("*.whl"))
    whole = work / "whole"
    unpack(repaired, whole)
    add_ucx_modules(whole, installed / "bin" / "ringwood")
    rename_ucx(whole, work)
    licences.bring(whole / f"ringwood-{version}.dist-info" / "licenses", sorted(whole.glob("ringwood.libs/**/*.so*")))
    return whole, repaired.name


def make(build, directory):
    version = version_of(build)
    with tempfile.TemporaryDirectory(prefix="ringwood-wheel-") as temporary:
        work = pathlib.Path(temporary)
        install(build, work / "installed")
        whole, name = complete(work / "installed", version, work)
        record(whole / f"ringwood-{version}.dist-info")
        pathlib.Path(directory).mkdir(parents=True, exist_ok=True)
        pack(whole, pathlib.Path(directory) / name)
    return pathlib.Path(directory) / name


if __name__ == "__main__":
    print(make(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]))
