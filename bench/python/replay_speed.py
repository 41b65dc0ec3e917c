"""How fast logged rounds are replayed, beside how fast they were trained: the same ranks on the same machine.

    RINGWOOD_BUILD=build/release .venv/bin/python bench/python/replay_speed.py [--turns 3] [--steps 200] [--ranks 2]

Models: the CNN of examples/fashion_mnist.py with SGD, momentum and density 0.01 (1.25 million parameters, batches of 128
over all ranks), and the GPT of examples/local_steps.py with AdamW, dense (0.1 and 3.2 million parameters, 16 windows of
64 characters), the larger one also with AdamW(fused=True). A turn is three starts of a job on one store: 20 steps up to a
checkpoint, so many logged steps without one, and the replay of these. Told are steps/s, between the first and the last of
them, and their ratio, which others on the machine change: the starts follow each other. So told is also rank 0's processor
time of a step, and its ratio. `--worker` is what the ranks run.
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
CHECKPOINT_AT, TARGET = 20, 10
GPTS = {"gpt": (2, 64, False), "larger gpt": (4, 256, False), "larger gpt, fused": (4, 256, True)}  # layers, width, fused
MODELS = ("cnn", *GPTS)


def training_of(name, ranks):
    """(model, optimizer, density, step) of random data: what is computed is what the examples compute."""
    import torch
    sys.path.insert(0, str(ROOT / "examples"))
    if name == "cnn":
        import fashion_mnist
        model = fashion_mnist.make_model(1)
        images, labels = torch.randn(128 // ranks, 1, 28, 28), torch.randint(10, (128 // ranks,))
        optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
        return model, optimizer, 0.01, lambda: torch.nn.functional.cross_entropy(model(images), labels)
    import local_steps
    layers, width, fused = GPTS[name]
    model = local_steps.GPT(128, 64, layers, width, 4)
    windows = local_steps.windows_of(torch.randint(128, (4096,)), torch.arange(16 // ranks) * 64, 64)
    return model, torch.optim.AdamW(model.parameters(), 1e-3, fused=fused), 1.0, lambda: model(windows)


def now():
    return time.monotonic(), time.process_time()


def work(name, until, file):
    import torch
    import ringwood.torch as rw
    rw.init()
    torch.set_num_threads(1)
    model, optimizer, density, loss_of = training_of(name, rw.size())
    route = "sparse" if density < 1 else "dense"
    optimizer = rw.DistributedOptimizer(optimizer, model.named_parameters(), density=density, route=route)
    rw.broadcast_parameters(model.state_dict())
    times = []
    rw.resume(model, optimizer, before_step=lambda: times.append(now()))
    replayed, times = times, []
    while optimizer.session.step < until:
        times.append(now())
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()
        rw.save(model, optimizer, {}, every=CHECKPOINT_AT if until == CHECKPOINT_AT else 10**9)
    if rw.rank() == 0:
        pathlib.Path(file).write_text(json.dumps({"replayed": replayed, "trained": times}))
    rw.shutdown()


def start(name, ranks, until, folder):
    report = pathlib.Path(folder) / "report"
    command = [BUILD / "bin/ringwood", "run", "-np", ranks, "--store", f"{folder}/store", "--update-log", "--resume=auto",
               "--", sys.executable, __file__, "--worker", name, until, report]
    run = subprocess.run([str(word) for word in command], env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
                         capture_output=True, text=True, timeout=1200, check=False)
    if run.returncode:
        sys.exit(f"{name} up to step {until}: exit code {run.returncode}\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    return json.loads(report.read_text())


def of_a_step(times):
    """(seconds, processor seconds)."""
    return [(last - first) / (len(times) - 1) for first, last in zip(times[0], times[-1])]


def turn(name, ranks, steps):
    """(trained, replayed): seconds and processor seconds of a step."""
    with tempfile.TemporaryDirectory() as folder:
        start(name, ranks, CHECKPOINT_AT, folder)
        trained = start(name, ranks, CHECKPOINT_AT + steps, folder)["trained"]
        replayed = start(name, ranks, CHECKPOINT_AT + steps + 1, folder)["replayed"]
    if len(replayed) != steps:
        sys.exit(f"{name}: {len(replayed)} of {steps} steps were replayed")
    return of_a_step(trained), of_a_step(replayed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worker", nargs=3, metavar=("MODEL", "UNTIL", "FILE"))
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.worker:
        name, until, file = arguments.worker
        work(name, int(until), file)
        return
    for name in arguments.models:
        turns = [turn(name, arguments.ranks, arguments.steps) for _ in range(arguments.turns)]
        trained, replayed = ([statistics.median(column) for column in zip(*each)] for each in zip(*turns))
        ratios, spent = (sorted(before[i] / after[i] for before, after in turns) for i in (0, 1))
        ratio = statistics.median(ratios)
        print(f"{name}: trained {1 / trained[0]:.0f}, replayed {1 / replayed[0]:.0f} steps/s: {ratio:.1f} times "
              f"({ratios[0]:.1f} to {ratios[-1]:.1f}), target {TARGET}: {'reached' if ratio >= TARGET else 'missed'}; "
              f"rank 0's processor time {trained[1] * 1e3:.1f} and {replayed[1] * 1e3:.1f} ms a step: "
              f"{statistics.median(spent):.1f} times ({spent[0]:.1f} to {spent[-1]:.1f})", flush=True)


if __name__ == "__main__":
    main()
