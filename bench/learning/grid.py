"""What sparse exchange, few bits and local steps cost a small GPT with AdamW: validation loss against the dense exchange.

    python bench/learning/grid.py                      # all: 2 and 4 workers, 3 seeds, 2,000 steps
    python bench/learning/grid.py --only 'dense|below' --seeds 1 --steps 500
    python bench/learning/grid.py --list               # what is missing, and about how long it takes
    python bench/learning/grid.py --table              # what is there
    python bench/learning/grid.py --text gpl           # on a text that the model learns until the loss no longer falls

A run of 2,000 steps takes one to two minutes on two cores. One line of JSON a run is appended to results.jsonl beside
this file; a run whose line is there is not repeated, so the grid can be stopped at any time and continued.
"""

import argparse
import itertools
import pathlib
import re
import statistics
import sys

from runs import PROGRAM, complete, lines, report_of  # beside this file

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 90            # of one run of 2,000 steps on two cores, about
SPARSE = ("sparse", "matrices", "matrices, union", "below the moments", "below the moments, decay",
          "below, of the average", "below, of the average, chunk", "ahead, of the average", "every 4", "every 16", "sparseloco 32")
DENSE = ("dense", "int8", "int4", "int4 every 2, of the average", "bf16", "int4 every 4, of the average", "int4 every 2",
         "diloco 16", "diloco 64")


def runs(arguments):
    """What says most comes first."""
    cases = [(case, 1.0) for case in DENSE] + [(case, density) for density in arguments.densities for case in SPARSE]
    for seed, workers, (case, density) in itertools.product(arguments.seeds, arguments.workers, cases):
        if re.search(arguments.only, case):
            yield {"case": case, "density": density, "workers": workers, "seed": seed, "steps": arguments.steps,
                   "text": arguments.text}


def text_of(line):
    return line.get("text", "python")


def key(line):
    return line["case"], line["density"], line["workers"], line["seed"], line["steps"], text_of(line)


def execute(what, ringwood):
    trainer = [HERE / "train.py", "--case", what["case"], "--density", what["density"], "--seed", what["seed"],
               "--steps", what["steps"], "--text", what["text"]]
    return report_of(what, ringwood, ["-np", what["workers"]], trainer)


def table(found):
    """Means over seeds; per cent from the dense run of the same workers and seed."""
    dense = {(line["workers"], line["seed"], line["steps"]): line["loss"] for line in found if line["case"] == "dense"}
    rows = {}
    for line in found:
        rows.setdefault((line["workers"], line["steps"], line["case"], line["density"]), []).append(line)
    yield f"| {'case':<26} | workers | steps | seeds |   loss | from dense, mean | worst | fewer bytes |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for (workers, steps, case, density), group in sorted(rows.items()):
        off = [100 * (line["loss"] / dense[workers, line["seed"], steps] - 1) for line in group
               if (workers, line["seed"], steps) in dense]
        mean, worst = (f"{statistics.mean(off):+.2f} %", f"{max(off):+.2f} %") if off else ("", "")
        name = case if density == 1 else f"{case} {density:g}"
        yield (f"| {name:<26} | {workers} | {steps} | {len(group)} | "
               f"{statistics.mean(line['loss'] for line in group):.4f} | {mean} | {worst} | "
               f"{statistics.mean(line['fewer_bytes'] for line in group):.1f} |")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ringwood", default=PROGRAM)
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "results.jsonl")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--densities", type=float, nargs="+", default=[0.01, 0.001])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--text", default="python", choices=["python", "gpl"])
    parser.add_argument("--only", default="", metavar="REGEX", help="cases whose name matches")
    parser.add_argument("--list", action="store_true", help="print what is missing, run nothing")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    known = {key(line) for line in lines(arguments.results)}
    missing = [] if arguments.table else [what for what in runs(arguments) if key(what) not in known]
    if arguments.list:
        print(*missing, sep="\n")
        print(f"{len(missing)} runs, about {len(missing) * SECONDS * arguments.steps / 2000 / 60:.0f} minutes")
        return 0
    failed = complete(missing, lambda what: execute(what, arguments.ringwood), arguments.results)
    print(*table([line for line in lines(arguments.results) if text_of(line) == arguments.text]), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
