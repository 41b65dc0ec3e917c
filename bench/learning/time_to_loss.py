#!/usr/bin/env python3
"""A small GPT over a slow network: seconds a step and the loss after so many, of PyTorch DDP and of Ringwood.

    bench/learning/time_to_loss.py [--rate 100mbit] [--hosts 4] [--steps 20] [--repeats 3]

Makes network namespaces with shaped interfaces (bench/netns.sh, needs root), a rank on each. The three ways to train take
turns; each run starts from the same parameters and has the same batches. With the same loss after the same steps, the
time to a loss is that of the steps. Prints a line of a Markdown table for each way.

    DDP    DistributedDataParallel over Gloo, AdamW
    int4   rw.DistributedOptimizer of AdamW with --wire int4
    pairs  rw.AverageAdamW below rw.LocalSteps(every=2, codec="int4")
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

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
from hosts import a_rank_each, shaped_hosts  # noqa: E402

WAYS = ("DDP", "int4", "pairs")
WARM_UP = 4  # steps that are not timed: plans, scales, first memory


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20, help="timed ones of a run; even")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each way")
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4, help="windows a step, all ranks together")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--prefix", default="rwloss")
    parser.add_argument("--program", default=ROOT / "build/release/bin/ringwood")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--report", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(options, way, directory):
    """{"seconds": a step's, "loss": the ranks' mean over the last four steps, "parameters"}."""
    report = directory / "report"
    command = [options.program, "run", *a_rank_each(options.hosts, options.prefix), "--trusted-fabric",
               "-np", options.hosts, *(["--wire", "int4"] if way == "int4" else []), "--",
               sys.executable, __file__, "--way", way, "--report", report]
    for name in ("steps", "width", "layers", "batch", "lr"):
        command += [f"--{name}", getattr(options, name)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0"}
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr, timeout=1200, env=environment)
    return json.loads(report.read_text())


def made(way, model, options, directory):
    """(what computes the loss, optimizer)"""
    import torch

    import ringwood.torch as rw

    options_of_adam = dict(lr=options.lr, betas=(0.9, 0.95), weight_decay=0.1)
    if way == "DDP":
        torch.distributed.init_process_group("gloo", f"file://{directory}/meet", rank=rw.rank(), world_size=rw.size())
        return torch.nn.parallel.DistributedDataParallel(model), torch.optim.AdamW(model.parameters(), **options_of_adam)
    if way == "int4":
        adam = torch.optim.AdamW(model.parameters(), **options_of_adam)
        return model, rw.DistributedOptimizer(adam, model.named_parameters())
    adam = rw.AverageAdamW(model.parameters(), **options_of_adam)
    return model, rw.LocalSteps(model, adam, every=2, outer=rw.OuterSGD(lr=1.0), codec="int4")


def train(options):
    """A rank."""
    import torch

    import ringwood.torch as rw
    import train as trainer  # beside this file
    from local_steps import GPT, windows_of  # found by it

    torch.set_num_threads(1)
    rw.init()
    torch.manual_seed(1)
    training, _, letters = trainer.text()
    model = GPT(letters, trainer.WINDOW, options.layers, options.width, 6)
    compute, optimizer = made(options.way, model, options, pathlib.Path(options.report).parent)
    rw.broadcast_parameters(model.state_dict())
    draw = torch.Generator().manual_seed(1001)
    losses = []
    for step in range(WARM_UP + options.steps):
        if step == WARM_UP:
            rw.gather_texts("")  # together
            begun = time.monotonic()
        starts = torch.randint(0, len(training) - trainer.WINDOW - 1, (options.batch,), generator=draw)
        optimizer.zero_grad()
        loss = compute(windows_of(training, starts[rw.rank()::rw.size()], trainer.WINDOW))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seconds = (time.monotonic() - begun) / options.steps
    ends = [json.loads(text) for text in rw.gather_texts(json.dumps([seconds, statistics.mean(losses[-4:])]))]
    if rw.rank() == 0:
        pathlib.Path(options.report).write_text(json.dumps(
            {"seconds": max(end[0] for end in ends), "loss": statistics.mean(end[1] for end in ends),
             "parameters": sum(parameter.numel() for parameter in model.parameters())}))
    if options.way == "DDP":
        torch.distributed.destroy_process_group()
    rw.shutdown()


def main():
    options = parse_arguments()
    if options.way:
        return train(options)
    found = {way: [] for way in WAYS}
    with shaped_hosts(options.hosts, options.rate, options.prefix):
        for way in WAYS * options.repeats:
            with tempfile.TemporaryDirectory() as directory:
                found[way].append(measure(options, way, pathlib.Path(directory)))
    print(f"{found['DDP'][0]['parameters']} parameters, {options.hosts} hosts, {options.rate}")
    print("| way | seconds a step | times DDP (least, most) | loss after "
          f"{WARM_UP + options.steps} steps |\n|---|---:|---:|---:|")
    for way, runs in found.items():
        ratios = [plain["seconds"] / run["seconds"] for plain, run in zip(found["DDP"], runs)]
        print(f"| {way} | {statistics.median(run['seconds'] for run in runs):.3f} | {statistics.median(ratios):.2f} "
              f"({min(ratios):.2f}, {max(ratios):.2f}) | {runs[0]['loss']:.4f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
