"""What a checkpoint every N steps costs the training of ./dev demo: the same job with and without, in turn.

    RINGWOOD_BUILD=build/release .venv/bin/python bench/python/checkpoint_stall.py [--turns 5] [--steps 400] [--every 20]
    RINGWOOD_BUILD=build/release .venv/bin/python bench/python/checkpoint_stall.py --steps 2000 --turns 2

The second is for memory: 100 checkpoints in a row. Told are the ratio of the times of all steps but the first ones, the share of the time that the training thread spends
in the call that saves (of the slowest rank), and memory: what the peak of a rank grows by beside its arena, and the
slope over all checkpoints. `--worker` is what the ranks run.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RINGWOOD_BUILD", ROOT / "build" / "release"))
WARM, BATCH = 20, 128  # steps that are not counted; samples of a step
SAMPLES = 60000  # of the data set: more steps take more passes
TARGETS = {"stalled share": 0.01, "memory / arena": 1.10}


def resident_bytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def work(file):
    """The example, with a clock at its calls."""
    sys.path.insert(0, str(ROOT / "examples"))
    import fashion_mnist as example
    plain, ends, stalls, resident = example.Together.checkpoint, [], [], []

    def checkpoint(self, step):
        begun = time.monotonic()
        plain(self, step)
        ends.append(time.monotonic())
        stalls.append(ends[-1] - begun)
        if self.every and step % self.every == 0:
            resident.append(resident_bytes())
        progress = self.optimizer.session.checkpoint_progress
        checkpoint.told = {"arena": progress.arena, "rank": self.rank, "failed": progress.failed}

    example.Together.checkpoint = checkpoint
    example.main()
    peak = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
    file.with_name(f"{file.name}.{checkpoint.told['rank']}").write_text(json.dumps(
        {**checkpoint.told, "seconds": ends[-1] - ends[WARM], "stalled": sum(stalls[WARM + 1:]), "peak": peak,
         "longest": max(stalls[WARM + 1:]), "resident": resident}))


def turn(options, every, folder):
    """What each rank wrote."""
    out = folder / f"every{every}"
    passes = -(-options.steps * BATCH // SAMPLES)
    command = [BUILD / "bin" / "ringwood", "run", "-np", options.workers, "--store", folder / f"store{every}",
               "--log-level", "warning", "--", sys.executable, __file__, "--worker", out,
               "--checkpoint-every", every, "--epochs", passes, "--limit", -(-options.steps // passes) * BATCH]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, cwd=ROOT,
                   env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1",
                        "RINGWOOD_LIBRARY": str(BUILD / "lib" / "libringwood.so")})
    return [json.loads((folder / f"{out.name}.{rank}").read_text()) for rank in range(options.workers)]


def slope(values):
    """Least squares, per value."""
    middle, mean = (len(values) - 1) / 2, statistics.mean(values)
    return (sum((i - middle) * (value - mean) for i, value in enumerate(values))
            / sum((i - middle) ** 2 for i in range(len(values))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    ratios, stalls, extra, slopes = [], [], [], []
    for number in range(options.turns):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            order = (0, options.every) if number % 2 else (options.every, 0)
            ran = {every: turn(options, every, folder) for every in order}
        plain, saving = ran[0], ran[options.every]
        ratios.append(max(rank["seconds"] for rank in saving) / max(rank["seconds"] for rank in plain))
        stalls.append(max((rank["stalled"] - other["stalled"]) / rank["seconds"] for rank, other in zip(saving, plain)))
        extra.append(max((rank["peak"] - other["peak"]) / rank["arena"] for rank, other in zip(saving, plain)))
        slopes.append(max(slope(rank["resident"][3:]) for rank in saving))
        print(f"turn {number + 1}: {plain[0]['seconds']:.2f} s without, {saving[0]['seconds']:.2f} s with a checkpoint "
              f"every {options.every} of {options.steps} steps, ratio {ratios[-1]:.4f}; stalled {100 * stalls[-1]:.2f} %, "
              f"longest {1000 * max(rank['longest'] for rank in saving):.1f} ms; memory {extra[-1]:.2f} x arena of "
              f"{saving[0]['arena'] / 1e6:.1f} MB, slope {slopes[-1] / 1024:.1f} KiB a checkpoint over "
              f"{len(saving[0]['resident'])}; {sum(rank['failed'] for rank in saving)} failed", flush=True)
    for what, values in (("ratio", ratios), ("stalled share", stalls), ("memory / arena", extra)):
        target = f"; target: at most {TARGETS[what]}" if what in TARGETS else ""
        print(f"{what}: median {statistics.median(values):.4f}, {min(values):.4f} to {max(values):.4f}{target}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        target = pathlib.Path(sys.argv[2])
        sys.argv[1:] = sys.argv[3:]
        work(target)
    else:
        main()
