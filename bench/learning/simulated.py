"""train.py's GPT in one process, with gradients that go through the codec of dense/lattice/codes.h, or that have noise.

    python bench/learning/simulated.py                                      # what simulated.jsonl lacks of the grid
    python bench/learning/simulated.py --seeds 1 --cases int8 'noise 0.1'   # a part of it
    python bench/learning/simulated.py --list | --table
    python bench/learning/simulated.py --chart docs/few_bits.svg            # curves

    fp32         exact averages
    int8, int4   as `--wire` has them, to the bit of a run of 4 ranks
    noise E      exact averages, each element times 1 + E·n with a normal n: what a run loses, or gains, by being another
    20 bits      int8's codec with 20 bits and its headroom of 4: rounds nothing, cuts off as int8 does
    int8, 16     with another headroom; 20 bits, 32: rounds nothing and cuts nothing off
    hops 5       sums of a ring that rounds them to 5 bits at every hop (requantised.py)

A metric is the perplexity of the validation text, a curve the training loss, a mean over every 50 steps. Runs are many and
short, so two go at once (--jobs).
"""

import argparse
import concurrent.futures
import itertools
import json
import math
import pathlib
import statistics
import subprocess
import sys

import torch

from requantised import ring_sum  # beside this file
from runs import lines
from train import BATCH, CASES, WINDOW, GPT, groups_of, learning_rate, text, validate, windows_of

HERE = pathlib.Path(__file__).resolve().parent
GRID = ("fp32", "int8", "int4", "noise 0.1", "noise 0.001", "20 bits", "20 bits, 32", "int8, 16", "hops 5")
STEPS, LR, BLOCK, CURVE = 2000, 3e-3, 256, 50
LEAST, MOST_FALL, DROPPED = (127 - 96) << 7, 1 << 5, (1 << 21) - 1
LEVELS = {"int8": 127, "int4": 7, "20 bits": 2**19 - 1}
HEADROOM = {"int8": 4, "int4": 1, "20 bits": 4}


class Codec:
    """Of one tensor: what its ranks owe, (ranks, elements), and its blocks' reaches."""

    def __init__(self, case, ranks, elements):
        form, _, headroom = case.partition(", ")
        self.levels, self.headroom, self.elements = LEVELS[form], float(headroom or HEADROOM[form]), elements
        blocks = -(-elements // BLOCK)
        self.reach = torch.zeros(blocks, dtype=torch.int32)
        self.error = torch.zeros(ranks, blocks * BLOCK)

    def scales(self):
        largest = (self.reach << 16).view(torch.float32) * self.headroom / self.levels
        rounded = ((largest.view(torch.int32) + DROPPED) & ~DROPPED).view(torch.float32)
        return torch.where(self.reach < LEAST, torch.zeros(()), rounded)

    def sum(self, values):
        """(ranks, elements): what all ranks get of their sum."""
        owed = self.error + torch.nn.functional.pad(values, (0, self.error.shape[1] - self.elements))
        scale = self.scales().repeat_interleave(BLOCK)
        inverse = torch.where(scale > 0, 1 / scale, torch.zeros(()))
        codes = torch.round(owed * inverse).clamp(-self.levels, self.levels)
        codes[owed.abs() >= scale * 2.0**21] = 0
        self.error = owed - codes * scale
        largest = owed.abs().amax(0).view(-1, BLOCK).amax(1)
        seen = ((largest.view(torch.int32).long() + 0xffff) >> 16).int()
        fall = ((self.reach - seen) // 4).clamp(max=MOST_FALL)
        self.reach = torch.where(seen >= self.reach, seen, (self.reach - fall).clamp(min=0))
        return (codes.sum(0) * scale)[:self.elements]


def average(case, codec, gradients, weights, random):
    """`gradients`: (ranks, elements)."""
    values = gradients * weights[:, None]
    if case.startswith("hops"):
        total = ring_sum(values, int(case.split()[1]), random)
    else:
        total = codec.sum(values) if codec else values.sum(0)
    mean = (total.double() / float(weights.sum())).float()
    if case.startswith("noise"):
        mean *= 1 + float(case.split()[1]) * torch.randn(mean.shape, generator=random)
    return mean


def train(case, ranks, seed):
    """(metric, curve)."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    training, validation, letters = text()
    model = GPT(letters, WINDOW, 2, 64, 4)
    optimizer = torch.optim.AdamW(groups_of(model, CASES["dense"]), LR, betas=(0.9, 0.95))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, STEPS))
    draw, random = torch.Generator().manual_seed(1000 + seed), torch.Generator().manual_seed(seed)
    parameters = list(model.parameters())
    codecs = [Codec(case, ranks, p.numel()) if case.partition(", ")[0] in LEVELS else None for p in parameters]
    curve = []
    for step in range(STEPS):
        if step % CURVE == 0:
            curve.append(0.0)
        starts = torch.randint(0, len(training) - WINDOW - 1, (BATCH,), generator=draw)
        gradients = []
        for rank in range(ranks):
            model.zero_grad()
            loss = model(windows_of(training, starts[rank::ranks], WINDOW))
            loss.backward()
            curve[-1] += loss.item() / (ranks * CURVE)
            gradients.append([p.grad.flatten() for p in parameters])
        weights = torch.tensor([len(starts[rank::ranks]) for rank in range(ranks)], dtype=torch.float32)
        for p, codec, of_ranks in zip(parameters, codecs, zip(*gradients)):
            p.grad = average(case, codec, torch.stack(of_ranks), weights, random).view_as(p)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        scheduler.step()
    return math.exp(validate(model, validation, WINDOW)), [round(loss, 5) for loss in curve]


def table(found):
    """Means over seeds; per cent that the perplexity is above fp32's of the same seed."""
    plain = {line["seed"]: line["metric"] for line in found if line["case"] == "fp32"}
    yield "| case | seeds | worse than fp32: mean | its standard error | a run: standard deviation | each |"
    yield "|---|---:|---:|---:|---:|---|"
    for case, workers in sorted({(line["case"], line["workers"]) for line in found}):
        off = [100 * (line["metric"] / plain[line["seed"]] - 1) for line in sorted(found, key=lambda line: line["seed"])
               if (line["case"], line["workers"]) == (case, workers) and line["seed"] in plain and case != "fp32"]
        if len(off) > 1:
            spread = statistics.stdev(off)
            yield (f"| {case}, {workers} ranks | {len(off)} | {statistics.mean(off):+.2f} % | {spread / len(off)**.5:.2f} | "
                   f"{spread:.2f} | {', '.join(f'{each:+.2f}' for each in off)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "simulated.jsonl")
    parser.add_argument("--cases", nargs="+", default=GRID)
    parser.add_argument("--workers", type=int, nargs="+", default=[4])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 13)))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print what is missing, run nothing")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    parser.add_argument("--one", action="store_true", help="run one case and print its line alone")
    arguments = parser.parse_args()
    if arguments.one:
        metric, curve = train(arguments.cases[0], arguments.workers[0], arguments.seeds[0])
        print(json.dumps({"metric": metric, "curve": curve}))
        return
    known = {(line["case"], line["workers"], line["seed"]) for line in lines(arguments.results)}
    missing = [what for what in itertools.product(arguments.cases, arguments.workers, arguments.seeds)
               if what not in known]
    missing = [] if arguments.table else sorted(missing, key=lambda what: what[2])
    if arguments.list:
        print(*missing, sep="\n")
        return

    def run(what):
        case, workers, seed = what
        command = [sys.executable, __file__, "--one", "--cases", case, "--workers", str(workers), "--seeds", str(seed)]
        return what, json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, what) for what in missing]):
            (case, workers, seed), found = future.result()
            with open(arguments.results, "a", encoding="utf-8") as file:
                file.write(json.dumps({"case": case, "workers": workers, "seed": seed, **found}) + "\n")
            print(case, workers, seed, found["metric"], flush=True)
    print(*table(lines(arguments.results)), sep="\n")


if __name__ == "__main__":
    main()
