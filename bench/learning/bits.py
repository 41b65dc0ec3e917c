"""What few bits cost three models: the final metric with --wire bf16, int8 and int4 against fp32's.

    python bench/learning/bits.py                          # all: 4 and 8 workers, 3 seeds
    python bench/learning/bits.py --only lstm --workers 4
    python bench/learning/bits.py --list | --table         # what is missing; what is there

    cnn    examples/fashion_mnist.py, SGD with momentum, 3 passes over 30,000 samples: accuracy
    lstm   examples/char_lstm.py, the same, 600 steps: perplexity a letter over the last twentieth of the steps
    gpt    train.py beside this file, AdamW, 2,000 steps: perplexity a letter of the validation text

All dense. "fp32 again" trains with a learning rate that is a thousandth higher: how far two runs come apart that nobody
would tell apart. "rounded at every hop" is a ring whose sums are rounded to 5 bits at every hop (requantised.py); int4
travels as 5.5 bits on average on a ring of 4 ranks. One line of JSON a run is appended to bits.jsonl; a run whose line is
there is not repeated.
"""

import argparse
import itertools
import math
import pathlib
import re
import statistics
import sys
import tempfile

from runs import PROGRAM, ROOT, complete, lines, report_of  # beside this file

HERE = pathlib.Path(__file__).resolve().parent
WIRES = ("fp32", "int8", "int4", "bf16", "fp32 again", "rounded at every hop, 5 bits")
LR = {"cnn": 0.05, "lstm": 0.5, "gpt": 3e-3}


def command_of(model, seed):
    return {"cnn": [ROOT / "examples/fashion_mnist.py", "--route", "dense", "--epochs", "3", "--limit", "30000",
                    "--checkpoint-every", "0"],
            "lstm": [ROOT / "examples/char_lstm.py", "--route", "dense", "--steps", "600"],
            "gpt": [HERE / "train.py", "--steps", "2000"]}[model] + ["--seed", str(seed)]


def metric_of(model, report):
    if model == "cnn":
        return report["accuracy"]
    if model == "gpt":
        return math.exp(report["loss"])
    losses = report["losses"]
    return math.exp(statistics.mean(losses[-len(losses) // 20:]))


def runs(arguments):
    for seed, workers, model, wire in itertools.product(arguments.seeds, arguments.workers, LR, WIRES):
        if re.search(arguments.only, model) and re.fullmatch(arguments.wire, wire):
            yield {"model": model, "wire": wire, "workers": workers, "seed": seed}


def key(line):
    return line["model"], line["wire"], line["workers"], line["seed"]


def execute(what, ringwood):
    model, wire = what["model"], what["wire"]
    lr = LR[model] * (1 + 2 ** -10 if wire == "fp32 again" else 1)
    trainer = [*command_of(model, what["seed"]), "--lr", repr(lr)]
    with tempfile.TemporaryDirectory() as directory:
        if wire.startswith("rounded"):
            trainer = [HERE / "requantised.py", "--bits", "5", "--meet", f"{directory}/meet", *trainer]
        carried = "fp32" if wire.startswith("rounded") else wire.split()[0]
        report = report_of(what, ringwood, ["-np", what["workers"], "--wire", carried], trainer)
    return report and {"metric": metric_of(model, report)}


def table(found):
    """Means over seeds; per cent that the metric is worse than fp32's of the same workers and seed."""
    plain = {(line["model"], line["workers"], line["seed"]): line["metric"] for line in found if line["wire"] == "fp32"}
    rows = {}
    for line in found:
        if (line["model"], line["workers"], line["seed"]) in plain:
            rows.setdefault((line["model"], line["workers"], WIRES.index(line["wire"])), []).append(line)
    yield "| model | workers | wire | seeds | metric | worse than fp32, mean | each |"
    yield "|---|---:|---|---:|---:|---:|---|"
    for (model, workers, wire), group in sorted(rows.items()):
        sign = -1 if model == "cnn" else 1  # accuracy is better where it is higher
        off = [100 * sign * (line["metric"] / plain[model, workers, line["seed"]] - 1) for line in group]
        told = ("", "") if wire == 0 else (f"{statistics.mean(off):+.2f} %", ", ".join(f"{each:+.2f}" for each in off))
        yield (f"| {model} | {workers} | {WIRES[wire]} | {len(group)} | "
               f"{statistics.mean(line['metric'] for line in group):.4f} | {told[0]} | {told[1]} |")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ringwood", default=PROGRAM)
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "bits.jsonl")
    parser.add_argument("--workers", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose name matches")
    parser.add_argument("--wire", default=".*", metavar="REGEX", help="wires whose whole name matches")
    parser.add_argument("--list", action="store_true", help="print what is missing, run nothing")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    known = {key(line) for line in lines(arguments.results)}
    missing = [] if arguments.table else [what for what in runs(arguments) if key(what) not in known]
    if arguments.list:
        print(*missing, sep="\n")
        return 0
    failed = complete(missing, lambda what: execute(what, arguments.ringwood), arguments.results)
    print(*table(lines(arguments.results)), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
