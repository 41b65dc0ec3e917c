"""Selection with PyTorch on the device, as a training loop would write it; a line of JSON a case.

The same sizes and densities as device_select.cc; times are medians of events."""

import json
import statistics
import sys

ELEMENTS, WARM_UPS, RUNS, GRADIENTS = 16 << 20, 10, 50, 4


def seconds(torch, action):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    action()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3


def median(torch, action):
    times = [seconds(torch, lambda: action(step)) for step in range(WARM_UPS + RUNS)]
    return statistics.median(times[WARM_UPS:])


def main():
    try:
        import torch
    except ImportError:
        return print("skipped: no torch")
    if not torch.cuda.is_available():
        return print("skipped: no device")
    torch.manual_seed(1)
    gradients = [(2 * torch.rand(ELEMENTS, device="cuda") - 1) ** 3 * 0.01 for _ in range(GRADIENTS)]
    for k in (ELEMENTS // 1000, ELEMENTS // 100):
        residual = torch.zeros(ELEMENTS, device="cuda")

        def step(number):
            residual.add_(gradients[number % GRADIENTS])
            index = residual.abs().topk(k, sorted=False).indices
            values = residual[index]
            residual[index] = 0
            return values

        eager = median(torch, step)
        topk = median(torch, lambda number: gradients[number % GRADIENTS].topk(k, sorted=False))
        print(json.dumps({"elements": ELEMENTS, "k": k, "eager_p50_s": eager, "torch_topk_p50_s": topk}))


if __name__ == "__main__":
    sys.exit(main())
