#!/usr/bin/env python3
"""How long a job takes from `ringwood run` to its first committed step: C ranks with one tensor on one machine.

    bench/start/start.py [--ranks 16 64 256] [--turns 3] [--transport auto]

Prints a row for each number of ranks: the median and the most of the turns in seconds, and the descriptors
that rank 0 has open after the step.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RINGWOOD_BUILD", ROOT / "build" / "release"))
SECONDS = 900  # of a turn


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--transport", default="auto")
    return parser.parse_args()


def compiled(folder):
    program = folder / "trainer"
    library = BUILD / "lib"
    subprocess.run(["cc", "-O2", "-I", ROOT / "include", pathlib.Path(__file__).with_name("trainer.c"),
                    "-L", library, "-lringwood", f"-Wl,-rpath,{library}", "-o", program], check=True)
    return program


def turn(program, ranks, transport):
    """Seconds until the first committed step, and descriptors of rank 0."""
    command = [BUILD / "bin" / "ringwood", "run", "-np", str(ranks), "--transport", transport,
               "--join-timeout", str(SECONDS), "--", program, f"{time.monotonic():.3f}"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=SECONDS,
                           check=False)
    if ended.returncode != 0:
        sys.exit(f"{ranks} ranks: code {ended.returncode}\n{ended.stderr[-4000:]}")
    seconds, descriptors = ended.stdout.split()[-2:]
    return float(seconds), int(descriptors)


def main():
    options = arguments()
    print("ranks  median s  most s  descriptors")
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(pathlib.Path(folder))
        for ranks in options.ranks:
            turns = [turn(program, ranks, options.transport) for _ in range(options.turns)]
            seconds = [seconds for seconds, _ in turns]
            print(f"{ranks:5}  {statistics.median(seconds):8.2f}  {max(seconds):6.2f}  "
                  f"{max(descriptors for _, descriptors in turns):11}", flush=True)


if __name__ == "__main__":
    main()
