"""A step with CUDA gradients exchanged in place, staged through host memory, and not at all; a line of JSON a kind.

    ringwood run -np 1 -- python bench/gpu/in_place.py [--model gpt]

With one rank what is compared is the way to the library and back, not the network. The kinds alternate; the time is
that of forward, backward and the optimizer's step, medians and quartiles over all rounds.
"""

import argparse
import json
import statistics
import sys
import time

import torch
from models import MODELS

import ringwood.torch as rw

WARM_UPS, STEPS = 3, 10
KINDS = ("none", "in_place", "stage")


def trainer(kind, arguments):
    """A function that makes a step, in a session of its own; the caller shuts it down but for "none"."""
    torch.manual_seed(1)
    model = MODELS[arguments.model](arguments.small, arguments.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if kind != "none":
        rw.init(planner=arguments.planner)
        optimizer = rw.DistributedOptimizer(optimizer, model.named_parameters(), momentum_correction=0,
                                            route=arguments.route, device_tensors=kind)

    def step():
        optimizer.zero_grad()
        model.loss().backward()
        optimizer.step()
    return step


def seconds(kind, arguments):
    """Of each step."""
    step, times = trainer(kind, arguments), []
    for _ in range(WARM_UPS + STEPS):
        if arguments.device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        if arguments.device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    if kind != "none":
        rw.shutdown()
    return times[WARM_UPS:]


def read_arguments(description, model):
    """None, and it is said: there is no device."""
    parser = argparse.ArgumentParser(description=description.split("\n", maxsplit=1)[0])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--model", default=model, choices=MODELS)
    parser.add_argument("--route", default="dense", choices=["dense", "sparse", "auto"])
    parser.add_argument("--planner", help="such as wfbp: each tensor for itself, as soon as backward has made it. Of one "
                        "rank the default has one group, which begins when backward has ended")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--small", action="store_true", help="a model and a batch that a CPU computes in seconds")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        return print("skipped: no device")
    return arguments


def main():
    arguments = read_arguments(__doc__, "flat")
    if arguments is None:
        return
    torch.set_float32_matmul_precision("high")
    times = {kind: [] for kind in arguments.kinds}
    for _ in range(arguments.rounds):
        for kind, found in times.items():
            found += seconds(kind, arguments)
    alone = statistics.median(times["none"]) if "none" in times else None
    for kind, found in times.items():
        low, middle, high = statistics.quantiles(found, n=4)
        print(json.dumps({"model": arguments.model, "route": arguments.route, "kind": kind, "device": arguments.device,
                          "small": arguments.small, "planner": arguments.planner, "p50_s": middle, "quartiles_s": [low, high],
                          "over_none": alone and middle / alone}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
