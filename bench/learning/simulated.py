"""Trainings in one process, with gradients that go through a codec or have noise, or with local steps: many runs, and
curves.

    python bench/learning/simulated.py                                          # what simulated.jsonl lacks of the grid
    python bench/learning/simulated.py --seeds 1 --cases int8 'noise 0.1'       # a part of it
    python bench/learning/simulated.py --list | --table

Cases, beside those of lattice.py and local.py:
    fp32      exact averages
    bf16      each rank's gradient rounded, with error feedback, and added exactly
    noise E   exact averages, each element times 1 + E·n with a normal n: what a run loses, or gains, by being another
    hops 5    sums of a ring that rounds them to 5 bits at every hop (requantised.py)

Models are those of models.py. A line has the metric and the curve: the training loss, a mean over so many steps. Batches
are the same in all cases of a seed, so the loss of the last quarter of the steps tells cases apart that one metric at the
end cannot. Runs are many and short, so two go at once (--jobs); curves.py makes the chart.
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

from lattice import Codec, is_coded  # beside this file
from local import LocalTraining
from models import MODELS
from requantised import ring_sum
from runs import lines

HERE = pathlib.Path(__file__).resolve().parent
GRID = ("fp32", "bf16", "int8", "int4", "hops 5", "noise 0.1", "20 bits", "20 bits, headroom 32")
CURVE = 40  # points


class Bf16:
    def __init__(self, ranks, elements):
        self.error = torch.zeros(ranks, elements)

    def sum(self, values):
        owed = self.error + values
        sent = owed.bfloat16().float()
        self.error = owed - sent
        return sent.sum(0)


def codec_of(case, ranks, elements, wire_reach):
    if is_coded(case):
        return Codec(case, ranks, elements, wire_reach)
    return Bf16(ranks, elements) if case == "bf16" else None


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


class EveryStep:
    """The ranks exchange gradients in every step. `training`: of models.py."""

    def __init__(self, training, case, ranks, seed):
        self.training, self.case, self.ranks = training, case, ranks
        self.parameters = list(training.model.parameters())
        self.codecs = [codec_of(case, ranks, p.numel(), training.wire_reach) for p in self.parameters]
        self.random = torch.Generator().manual_seed(seed)

    def step(self, step):
        """The mean loss of the ranks."""
        training, gradients, weights, loss = self.training, [], [], 0.0
        training.begin(step)
        for samples, compute in training.shares(step, self.ranks):
            training.model.zero_grad()
            computed = compute()
            computed.backward()
            loss += computed.item() * samples
            gradients.append([p.grad.flatten() for p in self.parameters])
            weights.append(samples)
        loss /= sum(weights)
        weights = torch.tensor(weights, dtype=torch.float32)
        for p, codec, of_ranks in zip(self.parameters, self.codecs, zip(*gradients)):
            p.grad = average(self.case, codec, torch.stack(of_ranks), weights, self.random).view_as(p)
        training.update()
        return loss


def train(model, case, ranks, seed):
    """What a line has."""
    torch.set_num_threads(1)
    training = MODELS[model](seed)
    local = case.startswith("every")
    stepping = LocalTraining(training, case, ranks) if local else EveryStep(training, case, ranks, seed)
    losses = []
    for step in range(training.steps):
        losses.append(stepping.step(step))
        training.look(step)
    edges = [point * len(losses) // CURVE for point in range(CURVE + 1)]
    curve = [round(statistics.mean(losses[low:high]), 6) for low, high in itertools.pairwise(edges)]
    return {"metric": training.metric(), "curve": curve}


def worse(line, plain):
    """Per cent that it is worse than `plain`: in the metric, and in the perplexity of the last quarter of the training."""
    sign = -1 if line["model"] == "cnn" else 1
    last = CURVE // 4
    apart = statistics.mean(line["curve"][-last:]) - statistics.mean(plain["curve"][-last:])
    return 100 * sign * (line["metric"] / plain["metric"] - 1), 100 * math.expm1(apart)


def key(line):
    return tuple(line[name] for name in ("model", "case", "workers", "seed"))


def table(found):
    """Means over seeds."""
    plain = {(line["model"], line["seed"]): line for line in found if line["case"] == "fp32"}
    groups = {}
    for line in sorted(found, key=lambda line: (GRID.index(line["case"]) if line["case"] in GRID else 99, *key(line))):
        if line["case"] != "fp32" and (line["model"], line["seed"]) in plain:
            groups.setdefault((line["model"], line["case"], line["workers"]), []).append(
                worse(line, plain[line["model"], line["seed"]]))
    yield "| model, ranks | case | seeds | metric, worse than fp32's | each | training, last quarter | each |"
    yield "|---|---|---:|---:|---|---:|---|"
    for (model, case, workers), pairs in sorted(groups.items(), key=lambda group: (group[0][0], group[0][2])):
        told = []
        for off in zip(*pairs):
            error = f" ± {statistics.stdev(off) / len(off) ** 0.5:.2f}" if len(off) > 1 else ""
            told.append(f"{statistics.mean(off):+.2f}{error} % | {', '.join(f'{each:+.2f}' for each in off)}")
        yield f"| {model}, {workers} | {case} | {len(pairs)} | {' | '.join(told)} |"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "simulated.jsonl")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--cases", nargs="+", default=GRID)
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print what is missing, run nothing")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    parser.add_argument("--one", action="store_true", help="run one case and print its line alone")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    grid = list(itertools.product(arguments.seeds, arguments.models, arguments.cases, arguments.workers))
    if arguments.one:
        seed, model, case, workers = grid[0]
        print(json.dumps(train(model, case, workers, seed)))
        return
    known = {key(line) for line in lines(arguments.results)}
    missing = [(model, case, workers, seed) for seed, model, case, workers in grid
               if (model, case, workers, seed) not in known and (case != "fp32" or workers == arguments.workers[0])]
    if arguments.list or arguments.table:
        print(*(missing if arguments.list else table(lines(arguments.results))), sep="\n")
        return

    def run(what):
        flags = [word for name, value in zip(("models", "cases", "workers", "seeds"), what)
                 for word in (f"--{name}", str(value))]
        done = subprocess.run([sys.executable, __file__, "--one", *flags], check=True, capture_output=True, text=True)
        return what, json.loads(done.stdout)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, what) for what in missing]):
            what, found = future.result()
            with open(arguments.results, "a", encoding="utf-8") as file:
                file.write(json.dumps({**dict(zip(("model", "case", "workers", "seed"), what)), **found}) + "\n")
            print(*what, found["metric"], flush=True)
    print(*table(lines(arguments.results)), sep="\n")


if __name__ == "__main__":
    main()
