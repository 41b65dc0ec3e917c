"""Runs the convergence grid: dense against every kind of sparse exchange.

    python bench/convergence/grid.py --ringwood build/release/bin/ringwood [--only REGEX] [--list]
        [--jobs N] [--device cuda]
    python bench/convergence/grid.py --passes 8 --only 'dense|0.001'       # until dense no longer improves
    python bench/convergence/grid.py --model lstm --passes 100 --only 'dense|0.001'
    python bench/convergence/grid.py --model lstm --passes 5 --rate 100mbit --results FILE     # how long a step takes
    python bench/convergence/table.py          # table and chart of what is there

    cnn    train.py: Fashion-MNIST, accuracy on the test set
    lstm   letters.py: characters of the GPL, lowest perplexity of the part that is not learned

Sparse cases have momentum correction and a density warm-up over 117 steps, a quarter of a pass over Fashion-MNIST.
One line of JSON a run is appended to results.jsonl beside this file. A run whose line is there is not
repeated, so the grid can be stopped at any time and continued. What a seed is compared with, its dense run,
should be of the same device. With --rate each rank has a host of its own, a network namespace with a shaped interface
(bench/netns.sh, needs root).
"""

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
from hosts import a_rank_each, shaped_hosts  # noqa: E402 (found beside this folder)

PREFIX = "rwgrid"  # of the hosts' names
LONGEST_SECONDS = 7200  # of one run
SAMPLES, BATCH = 60_000, 128  # of Fashion-MNIST's training set, of a step over all workers
AS_MANY = ("--sparse-keep", "1")  # entries in a result as a worker sends
METRICS = {"cnn": "accuracy", "lstm": "perplexity"}


@dataclass(frozen=True)
class Case:
    name: str
    density: float = 0.01
    run: tuple = ()          # flags of `ringwood run`
    train: tuple = ()        # flags of the trainer
    environment: tuple = ()  # (name, value), …

    @property
    def label(self):
        return self.name if self.name == "dense" or self.density == 1 else f"{self.name} {self.density:g}"


def cases(model):
    """What says most comes first."""
    yield Case("dense", train=("--route", "dense"))
    if model == "lstm":  # local steps, which the other trainer does not have
        for every in (32, 64):
            yield Case(f"int4 every {every}", 1, train=("--every", str(every), "--codec", "int4"))
        yield Case("sparseloco every 8", 64 / 4096,
                   train=("--every", "8", "--codec", "rice/int2", "--chunk", "4096", "--decay", "0.95"))
    yield Case("default", 0.001)  # 0.01 is gtopk
    yield Case("default, chunk", 0.001, run=("--sparse-chunk", "4096"))
    for density in (0.01, 0.001):
        yield Case("gtopk", density, run=AS_MANY)
        yield Case("lags", density, run=("--planner", "lags", *AS_MANY))
        if density == 0.01:
            yield Case("int8", density, run=("--sparse-codec", "block16/int8", *AS_MANY))
            yield Case("int4", density, run=("--sparse-codec", "block16/int4", *AS_MANY))
        yield Case("union", density, run=("--sparse-merge", "union"))
        yield Case("chunk", density, run=AS_MANY, environment=(("RINGWOOD_SPARSE_CHUNK", "4096"),))


def warm_up_steps(case, limit):
    """0 for dense and local steps, where there is nothing to warm up."""
    return 0 if case.name == "dense" or "every" in case.name else (limit or SAMPLES) // BATCH // 4


def runs(arguments):
    for seed, world, case in itertools.product(arguments.seeds, arguments.workers, cases(arguments.model)):
        yield {"model": arguments.model, "case": case.label, "workers": world, "seed": seed,
               "passes": arguments.passes, **({"rate": arguments.rate} if arguments.rate else {})}, case


def key(line):
    return line.get("model", "cnn"), line["case"], line["workers"], line["seed"], line["passes"], line.get("rate")


def done(results):
    if not results.exists():
        return set()
    return {key(json.loads(line)) for line in results.read_text().splitlines() if line}


def network_of(arguments, ranks):
    """Flags of `ringwood run`."""
    return [*a_rank_each(ranks, PREFIX), "--trusted-fabric"] if arguments.rate else []


def trainer_of(arguments):
    if arguments.model == "lstm":
        return [str(HERE / "letters.py")]
    return [str(HERE / "train.py"), "--limit", str(arguments.limit), "--device", arguments.device,
            *(["--data", arguments.data] if arguments.data else []), "--batch", str(BATCH)]


def execute(ringwood, case, what, arguments):
    """One run; its report, or None after an error that was printed."""
    with tempfile.TemporaryDirectory() as directory:
        report = pathlib.Path(directory) / "report.json"
        command = [ringwood, "run", "-np", str(what["workers"]), "--failure-timeout", "600",
                   *network_of(arguments, what["workers"]),
                   "--density-warmup", str(warm_up_steps(case, arguments.limit)), *case.run,
                   "--", sys.executable, *trainer_of(arguments), "--seed", str(what["seed"]),
                   "--density", str(case.density), "--epochs", str(arguments.passes), *case.train]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "RINGWOOD_GRID_REPORT": str(report),
                       **dict(case.environment)}
        hosts = shaped_hosts(what["workers"], arguments.rate, PREFIX) if arguments.rate else contextlib.nullcontext()
        with hosts:
            run = subprocess.run(command, env=environment, capture_output=True, text=True,
                                 timeout=LONGEST_SECONDS, check=False)
        if run.returncode != 0 or not report.exists():
            print(f"{what}: exit code {run.returncode}\n{run.stdout[-2000:]}{run.stderr[-2000:]}", file=sys.stderr)
            return None
        return json.loads(report.read_text())


class Grid:
    """Runs what is missing, several at a time; a run's line is in the file before the next one starts."""

    def __init__(self, arguments):
        self._arguments = arguments
        self._writing = threading.Lock()  # the results file
        self.failed = 0

    def run(self, missing):
        with ThreadPoolExecutor(self._arguments.jobs) as workers:
            for done in [workers.submit(self._one, what, case) for what, case in missing]:
                done.result()

    def _one(self, what, case):
        arguments = self._arguments
        report = execute(arguments.ringwood, case, what, arguments)
        with self._writing:
            if report is None:
                self.failed += 1
                return
            with open(arguments.results, "a") as file:
                file.write(json.dumps({**what, "limit": arguments.limit,
                                       "warm_up": warm_up_steps(case, arguments.limit), **report}) + "\n")
            metric = METRICS[arguments.model]
            print(f"{what}: {metric} {report[metric]:.4f} in {report['seconds']:.0f} s", flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ringwood", default=str(ROOT / "build/release/bin/ringwood"))
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "results.jsonl")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--model", default="cnn", choices=METRICS)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--limit", type=int, default=0, help="use only the first N training samples")
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose label matches")
    parser.add_argument("--rate", help="of the hosts' network interfaces; without it all ranks are on this host")
    parser.add_argument("--jobs", type=int, default=1, help="so many runs at a time (each has --workers ranks)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--data", default="", help="directory of the data set's four .gz files")
    parser.add_argument("--list", action="store_true", help="print what is missing, run nothing")
    arguments = parser.parse_args()
    if arguments.jobs < 1 or (arguments.rate and arguments.jobs > 1):
        parser.error("--jobs must be at least 1, and 1 with --rate")
    return arguments


def main():
    arguments = parse_arguments()
    known = done(arguments.results)
    missing = [(what, case) for what, case in runs(arguments)
               if key(what) not in known and re.search(arguments.only, case.label)]
    if arguments.list:
        print(*(what for what, _ in missing), sep="\n")
        return 0
    grid = Grid(arguments)
    grid.run(missing)
    return 1 if grid.failed else 0


if __name__ == "__main__":
    sys.exit(main())
