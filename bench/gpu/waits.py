"""How often the host waits for the device in a training step, without exchange, in place and staged; a line of JSON each.

    ringwood run -np 1 -- python bench/gpu/waits.py [--model gpt]

PyTorch's profiler counts the calls of CUDA's runtime that wait, of each thread, over some steps after the first ones.
The trainer's own thread is the one that launches most kernels. In place a commit may add the wait for the digest."""

import argparse
import collections
import json
import sys

import torch
from in_place import trainer
from models import MODELS

import ringwood.torch as rw

WARM_UPS, STEPS = 3, 5
WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy")


def of_threads(events):
    """{thread: Counter of names} of a profile's events, (thread, name) each; the one with most launches first."""
    threads = collections.defaultdict(collections.Counter)
    for thread, name in events:
        threads[thread][name] += 1

    def launches(names):
        return sum(count for name, count in names.items() if "LaunchKernel" in name)
    return sorted(threads.values(), key=launches, reverse=True)


def waits(names, steps):
    """Calls a step; cudaMemcpyAsync does not wait."""
    return {name: count / steps for name, count in sorted(names.items())
            if name in WAITS and not name.endswith("Async")}


def profile(kind, arguments):
    step = trainer(kind, arguments)
    for _ in range(WARM_UPS):
        step()
    cuda = arguments.device == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * cuda
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(STEPS):
            step()
    if kind != "none":
        rw.shutdown()
    return [(event.thread, event.name) for event in profiler.events() if event.name.startswith("cuda")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--model", default="gpt", choices=MODELS)
    parser.add_argument("--route", default="dense", choices=["dense", "sparse", "auto"])
    parser.add_argument("--small", action="store_true", help="a model and a batch that a CPU computes in seconds")
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        return print("skipped: no device")
    for kind in ("none", "in_place", "stage"):
        threads = of_threads(profile(kind, arguments))
        print(json.dumps({"model": arguments.model, "route": arguments.route, "kind": kind,
                          "device": arguments.device, "small": arguments.small,
                          "waits_of_the_trainer": waits(threads[0], STEPS) if threads else {},
                          "waits_of_other_threads": waits(sum(threads[1:], collections.Counter()), STEPS)}),
              flush=True)


if __name__ == "__main__":
    sys.exit(main())
