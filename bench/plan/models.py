#!/usr/bin/env python3
"""What every planner predicts for every profile of data/espresso: the tables of docs/planner.md, in Markdown.

    bench/plan/models.py [--ringwood build/release/bin/ringwood]

The profiles have no forward time: half of backward is taken. Each host has a reducer, as plan takes it.
"""

import argparse
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORKS = {"1 GbE, 4 workers": "--network alpha=1e-4,beta=8.37e-9 --workers 4",
            "1 GbE, 16 workers": "--network alpha=1e-4,beta=8.37e-9 --workers 16",
            "10 GbE, 8 workers": "--network alpha=3.736e-5,beta=4.898e-10 --workers 8",
            "56 Gbit/s IB, 16 workers": "--network alpha=7.86e-6,beta=2.165e-10 --workers 16"}
MODELS = ("vgg16", "resnet50", "resnet101", "gpt2", "bert", "bert_large", "LSTM", "ugatit", "ncf")
PLANNERS = ("wfbp", "single", "fixed", "mgwfbp", "oasr", "exact", "asc", "dear", "lags", "omgs", "omgs-exact", "hybrid")


def planned(program, model, network, *more):
    command = [program, "plan", "--trace", ROOT / f"data/espresso/{model}.csv", *network.split(), "--json", *more]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {plan["planner"]: plan for plan in answer["planners"]}


def row(program, model, network):
    forward = planned(program, model, network)["wfbp"]["backward_seconds"] / 2
    plans = planned(program, model, network, "--forward", repr(forward), "--density", "0.001")
    times = [1000 * plans[name]["iteration_seconds"] for name in PLANNERS]
    return f"| {model} | " + " | ".join(f"{time:.1f}" if time < 99.95 else f"{time:.0f}" for time in times) + " |"


def table(program, network):
    return "\n".join(["| model | " + " | ".join(PLANNERS) + " |", "|---|" + "---:|" * len(PLANNERS),
                      *(row(program, model, network) for model in MODELS)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ringwood", default=ROOT / "build/release/bin/ringwood")
    program = parser.parse_args().ringwood
    for name, network in NETWORKS.items():
        print(f"**{name}** (`{network}`)\n\n{table(program, network)}\n")


if __name__ == "__main__":
    main()
