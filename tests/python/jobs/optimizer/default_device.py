"""What Ringwood makes for itself lies in host memory and is float32, whatever the defaults of the process are. A script
that sets a GPU has its own model there; here it is "meta", of which nothing can be read."""

import torch
import torch.distributed as dist
from torch import nn

import ringwood.torch as rw


def train(*optimizers):
    for optimizer in optimizers:
        optimizer.zero_grad()
    model(batch).sum().backward()
    for optimizer in optimizers:
        optimizer.step()


def further():
    train(*(rw.DistributedOptimizer(torch.optim.SGD(each.parameters(), lr=0.1), each.named_parameters()) for each in model))


def absent():
    optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), missing="skip")
    if rw.rank() == 0:
        model[1](batch).sum().backward()
    else:
        optimizer.weight = 0
    optimizer.step()


def local():
    train(rw.LocalSteps(model, rw.AverageAdamW(model.parameters()), every=1))


def state():
    optimizer = torch.optim.AdamW(model.parameters())
    train(optimizer)
    rw.broadcast_optimizer_state(optimizer)


def group():
    of_all, rank, size = dist.new_group(backend="ringwood"), dist.get_rank(), dist.get_world_size()
    given = torch.full((2,), float(rank), device="cpu", dtype=torch.float32)
    parts = [torch.empty_like(given) for _ in range(size)]
    for call in (dist.all_gather, lambda taken, mine, group: dist.all_to_all(taken, [mine] * size, group)):
        call(parts, given, group=of_all)
        assert [part.tolist() for part in parts] == [[float(r)] * 2 for r in range(size)]
    dist.destroy_process_group(of_all)


if not dist.is_initialized():  # one for all scripts of a process
    dist.init_process_group("gloo")
try:
    for check in (further, absent, local, state, group):
        torch.manual_seed(1)
        model, batch = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), torch.ones(1, 2)
        rw.init()
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        check()
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
        assert all(p.isfinite().all() for p in model.parameters())
        rw.shutdown()
finally:  # other scripts follow in this process
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)
print("all as it should be", flush=True)
