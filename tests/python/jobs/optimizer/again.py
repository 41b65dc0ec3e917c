"""Two exchanges in a step give what one gives, also of parameters that only other ranks use; and a checkpoint knows which
of several optimizers leads, however they are listed."""

import contextlib

import torch
from torch import nn

import ringwood.torch as rw

rw.init()
rank, size = rw.rank(), rw.size()


def averages(missing, exchanges):
    """One parameter a rank, which no other rank uses: gradients after two backward passes."""
    mine = nn.ParameterList(nn.Parameter(torch.zeros(1)) for _ in range(size + 1))  # the last one nobody's
    optimizer = rw.DistributedOptimizer(torch.optim.SGD(mine.parameters(), lr=1.0), mine.named_parameters(), missing=missing)
    with contextlib.nullcontext() if exchanges == 2 else optimizer.no_sync():
        (4.0 * mine[rank]).sum().backward()
    (4.0 * mine[rank]).sum().backward()
    optimizer.synchronize()
    found = [None if p.grad is None else p.grad.item() for p in mine]
    optimizer.end_step()
    rw.shutdown()
    rw.init()
    return found


for policy in ("zero", "skip"):
    once, twice = averages(policy, 1), averages(policy, 2)
    assert once == twice and once[:size] == [8.0 / size] * size, (policy, once, twice)

models = nn.ModuleDict({"first": nn.Linear(2, 1), "second": nn.Linear(2, 1)})
first, second = (rw.DistributedOptimizer(torch.optim.SGD(each.parameters(), lr=0.1), each.named_parameters())
                 for each in models.values())
rw.broadcast_parameters(models.state_dict())
checkpoint = rw.Checkpoint(models, [second, first], every=2)
saved = []
for step in range(4):
    for optimizer, model in ((first, models["first"]), (second, models["second"])):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    saved.append(checkpoint.due)
assert saved == [False, True, False, True], saved
assert first.leads and not second.leads
print(f"rank {rank}: all as it should be", flush=True)
rw.shutdown()
