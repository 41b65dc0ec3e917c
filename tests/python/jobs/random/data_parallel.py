"""DistributedDataParallel at random: over the process group "ringwood", or with the communication hook, models and
options that a number chooses end where the same ones end over Gloo. FIRST COUNT of the numbers."""

import contextlib
import random
import sys
from types import SimpleNamespace

import torch
import torch.distributed
from case import OPTIMIZERS, run
from torch.nn.parallel import DistributedDataParallel

import ringwood.torch as rw

torch.set_num_threads(1)


class Model(torch.nn.Module):
    def __init__(self, number, dtype):
        super().__init__()
        choose = random.Random(number)
        width = choose.choice([4, 16, 64])
        self.first = torch.nn.Linear(8, width)
        self.norm = torch.nn.LayerNorm(width)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(choose.randint(1, 3)))
        self.last = torch.nn.Linear(width, 3)
        self.shift = torch.nn.Parameter(torch.zeros(5))
        self.twice = choose.random() < 0.3  # a layer whose weights are used twice
        self.first.weight.requires_grad_(choose.random() < 0.7)
        self.to(dtype)

    def forward(self, inputs, layers, shifts):
        hidden = torch.relu(self.norm(self.first(inputs)))
        for layer, some in zip(self.layers, layers):
            hidden = hidden + torch.tanh(layer(hidden)) if some else hidden
        hidden = hidden + self.layers[0](hidden) if self.twice else hidden
        return self.last(hidden) + self.shift.sum() if shifts else self.last(hidden)


def case_of(number):
    choose = random.Random(number)
    case = SimpleNamespace(number=number, initials=[])
    case.hook = choose.random() < 0.3
    case.dtype = choose.choice([torch.float32, torch.float32, torch.bfloat16])
    case.unused = choose.random() < 0.4
    case.options = {"find_unused_parameters": case.unused, "static_graph": not case.unused and choose.random() < 0.2,
                    "gradient_as_bucket_view": choose.random() < 0.5, "bucket_cap_mb": choose.choice([25, 0.001, 0.01])}
    # In a static graph's first step PyTorch itself fails after no_sync().
    case.passes = 1 if case.options["static_graph"] else choose.choice([1, 1, 3])
    case.optimizer = choose.choice(["sgd", "momentum", "adamw", "rmsprop"])
    case.clips, case.to_none = choose.random() < 0.3, choose.random() < 0.5
    case.joins = not case.hook and not case.unused and case.passes == 1 and choose.random() < 0.3
    case.steps = choose.randint(1, 4)
    return case


def batches(case, step, layers):
    generator = torch.Generator().manual_seed(case.number * 1000 + step * 31 + rw.rank())
    choose = random.Random(f"{case.number} {step} {rw.rank()}")
    for _ in range(case.passes):
        reached = [not case.unused or choose.random() < 0.6 for _ in range(layers + 1)]
        yield torch.randn(4, 8, generator=generator).to(case.dtype), reached[1:], reached[0]


def trained(case, hook, group):
    torch.manual_seed(case.number)
    model = Model(case.number, case.dtype)
    parallel = DistributedDataParallel(model, process_group=group, **case.options)
    if hook:
        parallel.register_comm_hook(rw.HookState(model.named_parameters()), rw.communication_hook)
    optimizer = OPTIMIZERS[case.optimizer](p for p in model.parameters() if p.requires_grad)
    with parallel.join() if case.joins else contextlib.nullcontext():
        for step in range(case.steps + (case.joins and rw.rank() == 0)):
            optimizer.zero_grad(set_to_none=case.to_none)
            *early, last = batches(case, step, len(model.layers))
            with parallel.no_sync():
                for batch in early:
                    parallel(*batch).float().square().mean().backward()
            parallel(*last).float().square().mean().backward()
            if case.clips:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
    return list(model.named_parameters())


def check(case):
    ours = trained(case, case.hook, gloo if case.hook else None)
    theirs = trained(case, False, gloo)
    error = 1e-5 if case.dtype == torch.float32 else 3e-2
    for (name, one), (_, other) in zip(ours, theirs):
        off = float((one.detach() - other.detach()).abs().max())
        if not off <= error * max(1.0, float(other.detach().abs().max())):
            return f"{name} is off by {off}"
    return None


rw.init()
torch.distributed.init_process_group("ringwood")
gloo = torch.distributed.new_group(backend="gloo")
run(sys.argv[1:], case_of, check)
torch.distributed.destroy_process_group()
