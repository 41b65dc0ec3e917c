"""Rank 1 of an elastic job leaves single steps out by optimizer.weight = 0: WITH, 1 where it makes a backward in them."""

import sys

import torch

import ringwood.torch as rw

backward = bool(int(sys.argv[1]))
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Linear(4, 1, bias=False)
rw.init()
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
rw.broadcast_parameters(model.state_dict())
sampler = rw.Sampler(1000, 8, seed=1)
rw.elastic(model, optimizer, sampler)
for step, batch in zip(range(5), sampler):
    left_out = step in (1, 3)
    if left_out and rw.rank() == 1:
        optimizer.weight = 0
    optimizer.zero_grad()
    if backward or not (left_out and rw.rank() == 1):
        (model(torch.ones(len(batch), 4)).mean() * (1 + rw.rank())).backward()
    optimizer.step()
    assert optimizer.last.contributors == ((0,) if left_out else (0, 1)), optimizer.last
    assert model.weight.grad[0, 0] == (1 if left_out else 1.5), model.weight.grad
assert optimizer.weight == 4
rw.shutdown()
