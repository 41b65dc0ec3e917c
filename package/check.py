#!/usr/bin/env python3
"""Installs the packages in clean Debians and trains two ranks there. As root; needs debootstrap and the network.

    package/check.py DIRECTORY [bookworm] [trixie]      # DIRECTORY: with what `./dev package` made

In each release an ordinary user installs the wheel with pip in a virtual environment and trains; and apt installs the
.deb, with what it depends on and nothing else of ours. Every command runs in namespaces of its own, so that its mounts
and processes end with it.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from system import USER, Failed, System, download

RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
TORCH = "torch==2.13.0+cpu"     # by pip, where the configured index has builds for CPUs; else Debian's own
OLDEST_TORCH = (2, 1)
STEPS = 40                      # of the character LSTM


def debian_torch(system):
    """Whether it has a PyTorch of its own that is new enough."""
    policy = system.run("apt-cache", "policy", "python3-torch")
    found = re.search(r"Candidate: (\d+)\.(\d+)", policy)
    return bool(found) and tuple(map(int, found.groups())) >= OLDEST_TORCH


def trained(system, before, place):
    """Two ranks of the character LSTM, or of the NumPy example where there is no torch; says what came out."""
    if place == "numpy":
        said = system.user(f"{before}ringwood run -np 2 -- python3 -m ringwood.examples.minimal")
        return "NumPy, " + re.search(r"mean squared error [\d.]+", said)[0]
    system.user(f"{before}ringwood run -np 2 --report report.json -- python3 -m ringwood.examples.char_lstm "
                f"--steps {STEPS} --hidden 64")
    losses = json.loads((system.place / "home" / USER / "report.json").read_text())["losses"]
    if len(losses) != STEPS or not losses[-1] < losses[0]:
        raise Failed(f"the report has the losses {losses}: {STEPS} that fall were expected")
    return f"PyTorch of {place}, loss {losses[0]:.2f} → {losses[-1]:.2f}"


def trains_alone(system, python):
    """Without `ringwood run`, and without the program on the PATH."""
    said = system.user(f"{python} -m ringwood.examples.minimal 2>&1")
    if "so it trains alone" not in said or "rank 0 of 1" not in said:
        raise Failed(f"a trainer without a launcher said:\n{said}")


def check_wheel(base, wheel, work):
    system = base.copy(work / f"{base.release}-wheel")
    wheels = work / f"{base.release}-wheels"
    wheels.mkdir()
    torch, options = "numpy", ""
    if download(system.python(), wheels, TORCH):
        torch = "pip"
    elif debian_torch(system):
        torch, options = "Debian", "--system-site-packages "
        system.install("python3-torch")
    if torch == "numpy" or torch == "pip":
        download(system.python(), wheels, "numpy")
    system.give(wheel, *wheels.iterdir())
    what = f"{wheel.name} " + (TORCH if torch == "pip" else "")
    system.user(f"python3 -m venv {options}env; env/bin/pip install --no-index --find-links . {what}")
    before = "export PATH=$PWD/env/bin:$PATH; "
    version = system.user(before + "ringwood --version").split("\n")[0]
    if version != system.user(before + "python3 -m ringwood --version").split("\n")[0]:
        raise Failed("python -m ringwood is another program than ringwood")
    trains_alone(system, "env/bin/python3")
    return f"{version}, {trained(system, before, torch)}"


def check_deb(base, deb, work):
    system = base.copy(work / f"{base.release}-deb")
    shutil.copy2(deb, system.place / "tmp")
    system.install(f"/tmp/{deb.name}")
    torch = "numpy"
    if debian_torch(system):
        torch = "Debian"
        system.install("python3-torch")
    version = system.user("ringwood --version").split("\n")[0]
    trains_alone(system, "python3")
    said = trained(system, "", torch)
    system.run("python3", "-c", "import ringwood")  # as root Python leaves what it compiled
    system.run("apt-get", "purge", "-y", "-q", "ringwood")
    left = system.run("sh", "-c", "find / -xdev -name '*ringwood*' -not -path '/proc/*' -not -path '/home/*' "
                      "-not -path '/tmp/*' -not -path '/var/log/*'")
    if left.strip():
        raise Failed(f"after apt-get purge there are still:\n{left}")
    return f"{version}, {said}"


def check(release, wheel, deb, work):
    """(what, what came of it) of each package."""
    base = System(release, work / release).make()
    yield "wheel", check_wheel(base, wheel, work)
    yield ".deb", check_deb(base, deb, work)


def main(directory, releases):
    for ending in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C: commands are killed, folders removed
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    place = pathlib.Path(directory)
    packages = [max(place.glob(pattern), key=os.path.getmtime, default=None) for pattern in ("*.whl", "*.deb")]
    if None in packages:
        sys.exit(f"check.py: {directory} lacks a wheel or a .deb: run ./dev package first")
    failures = 0
    for release in releases or RELEASES:
        with tempfile.TemporaryDirectory(prefix="ringwood-check-") as temporary:
            os.chmod(temporary, 0o755)
            try:
                for what, result in check(release, *packages, pathlib.Path(temporary)):
                    print(f"{RELEASES[release]}, {what}: {result}", flush=True)
            except (Failed, subprocess.TimeoutExpired) as failure:
                print(f"{RELEASES[release]}: {failure}", file=sys.stderr, flush=True)
                failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
