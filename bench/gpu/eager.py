"""Sparse exchange with PyTorch on the device, as a training loop would write it; a line of JSON a case.

The sizes, densities and the clock of device_select.cc: residuals have piled up, and all of a step of one rank is
timed but the making of its gradient. Times are medians of events."""

import argparse
import json
import statistics
import sys

WARM_UPS, RUNS, GRADIENTS = 500, 50, 4


def seconds(torch, action):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    action()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3


def step(torch, gradient, residual, velocity, k):
    """Accumulate, select, picks to the host; what was accepted leaves, the result over the gradient."""
    update = gradient if velocity is None else velocity.mul_(0.9).add_(gradient)
    residual.add_(update)
    index = residual.abs().topk(k, sorted=False).indices
    values = residual[index]
    sent = index.cpu(), values.cpu()
    residual[index] = 0
    if velocity is not None:
        velocity[index] = 0
    gradient.zero_()
    gradient[sent[0].to("cuda", non_blocking=True)] = sent[1].to("cuda", non_blocking=True)


def measure(torch, elements, share, momentum):
    sources = [(2 * torch.rand(elements, device="cuda") - 1) ** 3 * 0.01 for _ in range(GRADIENTS)]
    gradient, residual = torch.empty_like(sources[0]), torch.zeros_like(sources[0])
    velocity = torch.zeros_like(residual) if momentum else None
    k, steps, topk = elements // share, [], []
    for number in range(WARM_UPS + RUNS):
        gradient.copy_(sources[number % GRADIENTS])
        took = seconds(torch, lambda: step(torch, gradient, residual, velocity, k))
        if number >= WARM_UPS:
            steps.append(took)
            topk.append(seconds(torch, lambda: residual.topk(k, sorted=False)))
    print(json.dumps({"elements": elements, "k": k, "momentum": momentum, "eager_step_s": statistics.median(steps),
                      "torch_topk_s": statistics.median(topk)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("elements", type=int, nargs="*", default=[10_000_000, 100_000_000])
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        return print("skipped: no torch")
    if not torch.cuda.is_available():
        return print("skipped: no device")
    torch.manual_seed(1)
    for elements in arguments.elements:
        for momentum in (False, True):
            for share in (1000, 100):
                measure(torch, elements, share, momentum)


if __name__ == "__main__":
    sys.exit(main())
