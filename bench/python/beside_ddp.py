"""Steps of small and odd models: Ringwood beside DistributedDataParallel over Gloo.

    OMP_NUM_THREADS=1 ringwood run -np 2 -- python bench/python/beside_ddp.py [CASE …] [--turns 9]

Both live in each process, with the same parameters and batches, and take turns of about a second's steps. Rank 0 prints
for each case the medians of a step's time and of its processor time (all threads of the process), and the ratio,
Ringwood's / DistributedDataParallel's: the median over the turns (smallest-largest). Above 1 Ringwood takes more.
"""

import argparse
import contextlib
import copy
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ringwood.torch as rw


class Tiny(nn.Module):
    """Parameters of 10, 100 and 1,000 elements, and hardly any computation."""

    def __init__(self, count):
        super().__init__()
        self.all = nn.ParameterList([nn.Parameter(torch.ones((10, 100, 1000)[i % 3])) for i in range(count)])

    def forward(self, inputs):
        return torch.cat(list(self.all)).sum() * inputs.sum()


class Lstm(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        self.layers = nn.LSTM(width, width, layers)

    def forward(self, inputs):
        return self.layers(inputs)[0]


class Half(nn.Module):
    """Half of its parameters get no gradient."""

    def __init__(self):
        super().__init__()
        self.used, self.unused = linear(20, 64), linear(20, 64)

    def forward(self, inputs):
        return self.used(inputs)


def linear(depth, width):
    return nn.Sequential(*(nn.Linear(width, width) for _ in range(depth)))


def convolutions(depth, width, normal):
    layers = [nn.Conv2d(3, width, 3, padding=1)]
    for _ in range(depth):
        layers += [nn.Conv2d(width, width, 3, padding=1), *[nn.BatchNorm2d(width)] * normal, nn.ReLU()]
    return nn.Sequential(*layers)


def image(side):
    return torch.randn(2, 3, side, side)


LAST = torch.channels_last
# name: (model, its inputs, how it is trained)
CASES = {
    "1 parameter": lambda: (Tiny(1), torch.ones(4), {}),
    "100 parameters": lambda: (Tiny(100), torch.ones(4), {}),
    "2,000 parameters": lambda: (Tiny(2000), torch.ones(4), {}),
    "LSTM, 16 layers": lambda: (Lstm(16, 64), torch.randn(8, 4, 64), {}),
    "8 passes, 7 in no_sync": lambda: (linear(50, 64), torch.randn(16, 64), {"passes": 8}),
    "clip_grad_norm_": lambda: (linear(50, 64), torch.randn(16, 64), {"clip": True}),
    "half without gradients": lambda: (Half(), torch.randn(16, 64), {"missing": "zero"}),
    "the same, skipped": lambda: (Half(), torch.randn(16, 64), {"missing": "skip"}),
    "BatchNorm, broadcast": lambda: (convolutions(20, 16, True), image(8), {"buffers": True}),
    "convolutions": lambda: (convolutions(8, 128, False), image(4), {}),
    "channels_last": lambda: (convolutions(8, 128, False).to(memory_format=LAST), image(4).to(memory_format=LAST), {}),
    "bf16 parameters": lambda: (linear(10, 1024).bfloat16(), torch.randn(4, 1024).bfloat16(), {}),
    "autocast to bf16": lambda: (linear(20, 256), torch.randn(16, 256), {"autocast": True}),
}


def step(model, optimizer, quiet, inputs, how):
    optimizer.zero_grad()
    passes = how.get("passes", 1)
    for number in range(1, passes + 1):
        with quiet() if number < passes else contextlib.nullcontext():
            with torch.autocast("cpu", torch.bfloat16, enabled=how.get("autocast", False)):
                loss = model(inputs).float().sum()
            loss.backward()
    if how.get("clip"):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def turn(arguments, steps):
    """(seconds, processor seconds) of a step."""
    dist.barrier()
    times, spent = [], time.process_time()
    for _ in range(steps):
        began = time.perf_counter()
        step(*arguments)
        times.append(time.perf_counter() - began)
    return statistics.median(times), (time.process_time() - spent) / steps


def compare(name, turns):
    torch.manual_seed(1)  # the same parameters on every rank
    mine, inputs, how = CASES[name]()
    missing = how.get("missing", "error")
    theirs = DistributedDataParallel(copy.deepcopy(mine), find_unused_parameters=missing != "error",
                                     broadcast_buffers=how.get("buffers", False))
    optimizer = rw.DistributedOptimizer(torch.optim.SGD(mine.parameters(), lr=1e-9), mine.named_parameters(),
                                        missing=missing)
    if how.get("buffers"):
        rw.broadcast_buffers(mine)
    pair = ((mine, optimizer, optimizer.no_sync, inputs, how),
            (theirs, torch.optim.SGD(theirs.parameters(), lr=1e-9), theirs.no_sync, inputs, how))
    for each in pair:
        turn(each, 3)
    steps = torch.tensor(max(5, int(1 / turn(pair[1], 3)[0])))
    dist.broadcast(steps, 0)
    found = [[turn(each, int(steps)) for each in pair] for _ in range(turns)]
    if dist.get_rank() == 0:
        print(f"{name:<24} {said([[each[0] for each in both] for both in found])}, processor "
              f"{said([[each[1] for each in both] for both in found])}", flush=True)


def said(found):
    """`found`: pairs, Ringwood's and the other's, in seconds."""
    ratios = [mine / other for mine, other in found]
    mine, other = (statistics.median(each) * 1e3 for each in zip(*found))
    return f"{mine:7.2f} / {other:7.2f} ms = {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--turns", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for name in arguments.cases or CASES:
        rw.init()  # each time a session of its own: the first optimizer of one has the tensors of the plan
        compare(name, arguments.turns)
        rw.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
