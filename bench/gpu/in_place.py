"""A step's exchange with CUDA gradients in place and staged through host memory; a line of JSON a kind.

    ringwood run -np 1 -- python bench/gpu/in_place.py

One rank: what is compared is the way to the library and back, not the network. The kinds alternate; the time is
that of backward until the gradients hold the averages, medians and quartiles over all rounds.
"""

import argparse
import json
import statistics
import sys
import time

import torch

import ringwood.torch as rw

TENSORS, WARM_UPS, STEPS = 50, 5, 20


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def steps(kind, device, elements):
    """Seconds of each step, in a session of its own."""
    rw.init()
    parameters = [(str(i), torch.nn.Parameter(torch.zeros(elements // TENSORS, device=device)))
                  for i in range(TENSORS)]
    inner = torch.optim.SGD([parameter for _, parameter in parameters], lr=0.1)
    optimizer = rw.DistributedOptimizer(inner, parameters, momentum_correction=0, route="dense",
                                        device_tensors=kind)
    factors = [torch.rand_like(parameter) for _, parameter in parameters]
    times = []
    for _ in range(WARM_UPS + STEPS):
        optimizer.zero_grad()
        loss = sum((parameter * factor).sum() for (_, parameter), factor in zip(parameters, factors))
        synchronize(device)
        begin = time.perf_counter()
        loss.backward()
        optimizer.synchronize()
        synchronize(device)
        times.append(time.perf_counter() - begin)
        optimizer.step()
    rw.shutdown()
    return times[WARM_UPS:]


def backward_alone(device, elements):
    """Without an exchange."""
    parameters = [torch.nn.Parameter(torch.zeros(elements // TENSORS, device=device)) for _ in range(TENSORS)]
    factors = [torch.rand_like(parameter) for parameter in parameters]
    times = []
    for _ in range(WARM_UPS + STEPS):
        loss = sum((parameter * factor).sum() for parameter, factor in zip(parameters, factors))
        synchronize(device)
        begin = time.perf_counter()
        loss.backward()
        synchronize(device)
        times.append(time.perf_counter() - begin)
    return times[WARM_UPS:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--elements", type=int, default=25_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.device == "cuda" and not torch.cuda.is_available():
        return print("skipped: no device")
    times = {"backward alone": [], "in_place": [], "stage": []}
    for _ in range(arguments.rounds):
        for kind, found in times.items():
            found += (backward_alone(arguments.device, arguments.elements) if kind == "backward alone"
                      else steps(kind, arguments.device, arguments.elements))
    for kind, found in times.items():
        low, middle, high = statistics.quantiles(found, n=4)
        print(json.dumps({"elements": arguments.elements, "kind": kind, "device": arguments.device,
                          "p50_s": middle, "quartiles_s": [low, high]}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
