"""What `ringwood replay` does, done by PyTorch's DistributedDataParallel over Gloo: one rank.

Each tensor of the profile is a parameter. Forward sleeps; backward sleeps until the profile says that the
gradient is ready and hands it over, so that DDP's own reducer fills its buckets and sends real bytes. The
clock runs from the barrier before forward until every bucket is averaged; of each step the slowest rank
counts. Needs RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and GLOO_SOCKET_IFNAME; rank 0 prints one line of
JSON. The values are the same in every step: nothing in DDP's time depends on them.
"""
import argparse
import csv
import json
import pathlib
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", required=True)
    parser.add_argument("--forward-ms", type=float, default=0)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--bucket-mb", type=float, default=25)
    return parser.parse_args()


def read_trace(path, scale):
    """(elements, seconds after the start of backward) of every gradient, in backward order."""
    with open(path, newline="") as file:
        return [(int(row["numel"]), float(row["ready_time_us"]) * 1e-6 * scale) for row in csv.DictReader(file)]


def busy_seconds():
    """Seconds that this host's cores have worked, all together."""
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) * 0.01  # without idle and iowait


class Handover(torch.autograd.Function):
    """Passes the activation through; in backward it waits and returns the parameter's gradient."""

    @staticmethod
    def forward(context, activation, parameter, tensor, model):
        context.tensor, context.model = tensor, model
        return activation.view_as(activation)

    @staticmethod
    def backward(context, upstream):
        return upstream, context.model.gradient(context.tensor), None, None


class Replayed(torch.nn.Module):
    def __init__(self, trace, forward_seconds):
        super().__init__()
        self.trace = trace
        self.forward_seconds = forward_seconds
        self.backward_began = None
        self.layers = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(n)) for n, _ in reversed(trace))
        uniform = torch.rand(max(n for n, _ in trace), generator=torch.Generator().manual_seed(1)) * 2 - 1
        self.values = 1e-3 * uniform * torch.sqrt(2 / (1 - uniform**2).clamp_min(2**-29))

    def forward(self, activation):
        self.backward_began = None
        time.sleep(self.forward_seconds)
        for number, parameter in enumerate(self.layers):
            activation = Handover.apply(activation, parameter, len(self.trace) - 1 - number, self)
        return activation

    def gradient(self, tensor):
        elements, ready = self.trace[tensor]
        now = time.perf_counter()
        self.backward_began = self.backward_began or now
        time.sleep(max(0, self.backward_began + ready - now))
        return self.values[:elements]


def step(model):
    model.zero_grad(set_to_none=False)  # DDP's best: gradients stay views of the buckets
    dist.barrier()
    busy, begin = busy_seconds(), time.perf_counter()
    model(torch.ones(1, requires_grad=True)).sum().backward()
    seconds, busy = time.perf_counter() - begin, busy_seconds() - busy
    slowest = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return slowest.item(), busy / seconds


def main():
    given = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trace = read_trace(given.trace, given.scale)
    forward = given.forward_ms * 1e-3 * given.scale
    model = DistributedDataParallel(Replayed(trace, forward), bucket_cap_mb=given.bucket_mb,
                                    gradient_as_bucket_view=True)
    for _ in range(given.warmup):
        step(model)
    seconds, cores = zip(*[step(model) for _ in range(given.steps)])
    if dist.get_rank() == 0:
        print(json.dumps({"trace": pathlib.Path(given.trace).stem, "world": dist.get_world_size(),
                          "planner": f"ddp-{given.bucket_mb:g}MB", "compute_s": forward + trace[-1][1],
                          "median_s": statistics.median(seconds), "steps_s": seconds,
                          "busy_cores": statistics.median(cores), "torch": torch.__version__}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
