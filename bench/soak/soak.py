#!/usr/bin/env python3
"""Runs a small job for many steps with checkpoints and says whether any process grows.

    bench/soak/soak.py --steps 100000 --ranks 2 --servers 2 --checkpoint-every 1000

Every second: resident memory, open descriptors and threads of every process of the job. Printed at the
end, for each process: the least-squares slope over the last three quarters of the steps, per 100,000 steps,
and the values at the start and the end of that part.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RINGWOOD_BUILD", ROOT / "build" / "release"))
MEASURES = {"resident KiB": lambda status, path: int(re.search(r"VmRSS:\s+(\d+)", status)[1]),
            "descriptors": lambda status, path: len(os.listdir(path / "fd")),
            "threads": lambda status, path: int(re.search(r"Threads:\s+(\d+)", status)[1])}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--checkpoint-every", type=int, default=1000)
    return parser.parse_args()


def descendants(root):
    """The processes below `root`, and itself: pid -> command line."""
    parents, lines = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                lines[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, IndexError):
                continue  # it ended while we looked
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: lines[pid] for pid in found if pid in lines}


def sample(root):
    result = {}
    for pid, line in descendants(root).items():
        path = pathlib.Path("/proc") / str(pid)
        try:
            status = (path / "status").read_text()
            result[pid] = (line, {name: read(status, path) for name, read in MEASURES.items()})
        except (OSError, TypeError):
            continue  # it ended, or is a zombie without memory
    return result


def slope(points):
    """Least squares, per 100,000 steps."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    above = sum((x - mean_x) * (y - mean_y) for x, y in points)
    below = sum((x - mean_x) ** 2 for x, _ in points)
    return 1e5 * above / below if below else 0.0


def report(samples):
    first = samples[-1][0] / 4
    kept = [(step, found) for step, found in samples if step >= first]
    for pid, (line, _) in sorted(kept[-1][1].items()):
        print(f"{pid} {line[:90].strip()}")
        for name in MEASURES:
            points = [(step, found[pid][1][name]) for step, found in kept if pid in found]
            print(f"    {name:13} {points[0][1]:>8} -> {points[-1][1]:>8}   slope {slope(points):+10.1f} "
                  f"per 100,000 steps ({len(points)} samples)")


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as store:
        job = subprocess.Popen(
            [str(BUILD / "bin" / "ringwood"), "run", "-np", str(options.ranks), "--servers", str(options.servers),
             "--store", f"{store}/store", "--", sys.executable, str(pathlib.Path(__file__).with_name("job.py")),
             str(options.steps), str(options.checkpoint_every)],
            stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"})
        step = [0]

        def follow():
            for line in job.stdout:
                if found := re.search(r"\bstep (\d+)$", line.rstrip()):
                    step[0] = int(found[1])

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        samples, began = [], time.time()
        while job.poll() is None:
            if step[0] > 0:
                samples.append((step[0], sample(job.pid)))
            time.sleep(1)
        reader.join()
        if job.returncode != 0 or len(samples) < 8:
            sys.exit(f"the job ended with {job.returncode} after {len(samples)} samples")
        samples = [(at, found) for at, found in samples if len(found) == max(len(f) for _, f in samples)]
        print(f"{options.steps} steps, {options.ranks} ranks, {options.servers} servers, a checkpoint every "
              f"{options.checkpoint_every} steps, {time.time() - began:.0f} s")
        report(samples)


if __name__ == "__main__":
    main()
