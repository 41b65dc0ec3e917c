"""What a checkpoint every N steps costs the training of ./dev demo: the same job with and without, in turn.

    RINGWOOD_BUILD=build/release .venv/bin/python bench/python/checkpoint_stall.py [--turns 5] [--steps 400] [--every 20]
    RINGWOOD_BUILD=build/release .venv/bin/python bench/python/checkpoint_stall.py --steps 2000 --turns 2
    RINGWOOD_BUILD=build/release .venv/bin/python bench/python/checkpoint_stall.py --mib 256 --workers 2 --steps 40

The second is for memory: 100 checkpoints in a row; the third, too, with a model of so many MiB that computes nothing.
Told are the ratio of the times of all steps but the first ones, the share of the time that the training thread spends in
the call that saves (of the slowest rank), and memory: what the peak of a rank grows by beside its arena, and the slope
over all checkpoints. `--worker` is what the ranks run.
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


def peak_bytes():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))


def work_large(file, mib, every, steps):
    """SGD with momentum over `mib` MiB of weights whose gradients are ones."""
    import torch
    import ringwood.torch as rw
    rw.init()
    model = torch.nn.ParameterList(torch.zeros(1 << 20) for _ in range(mib // 4))
    optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1, momentum=0.9),
                                        [(f"p{i}", each) for i, each in enumerate(model)])
    checkpoint = rw.Checkpoint(model, optimizer, every=every or 10**9)
    resident, stalled, longest, begun = [], 0.0, 0.0, time.monotonic()
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        sum(each.sum() for each in model).backward()
        optimizer.step()
        called = time.monotonic()
        checkpoint.step()
        if step > WARM:
            stalled += time.monotonic() - called
            longest = max(longest, time.monotonic() - called)
        else:
            begun = time.monotonic()
        if every and step % every == 0:
            resident.append(resident_bytes())
    seconds, progress = time.monotonic() - begun, optimizer.session.checkpoint_progress
    file.with_name(f"{file.name}.{rw.rank()}").write_text(json.dumps(
        {"arena": progress.arena, "rank": rw.rank(), "failed": progress.failed, "seconds": seconds, "stalled": stalled,
         "longest": longest, "peak": peak_bytes(), "resident": resident}))


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
    file.with_name(f"{file.name}.{checkpoint.told['rank']}").write_text(json.dumps(
        {**checkpoint.told, "seconds": ends[-1] - ends[WARM], "stalled": sum(stalls[WARM + 1:]), "peak": peak_bytes(),
         "longest": max(stalls[WARM + 1:]), "resident": resident}))


def turn(options, every, folder):
    """What each rank wrote."""
    out = folder / f"every{every}"
    passes = -(-options.steps * BATCH // SAMPLES)
    worker = ["--checkpoint-every", every, "--epochs", passes, "--limit", -(-options.steps // passes) * BATCH]
    if options.mib:
        worker = ["--large", options.mib, every, options.steps]
    command = [BUILD / "bin" / "ringwood", "run", "-np", options.workers, "--store", folder / f"store{every}",
               "--log-level", "warning", "--", sys.executable, __file__, "--worker", out, *worker]
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
    parser.add_argument("--mib", type=int, default=0, help="of weights, which nothing is computed with")
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
        slopes.append(max(slope(rank["resident"][options.steps // options.every // 4:]) for rank in saving))
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
        if sys.argv[1:2] == ["--large"]:
            work_large(target, *map(int, sys.argv[2:]))
        else:
            work(target)
    else:
        main()
