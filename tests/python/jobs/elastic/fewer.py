"""Rank 0 of three leaves, the others save; two ranks, numbered from 0, resume and take part from the first step on."""

import torch

import ringwood.torch as rw

torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
rw.init()
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
rw.broadcast_parameters(model.state_dict())
sampler = rw.Sampler(1000, 8, seed=1)
training = rw.elastic(model, optimizer, sampler)
checkpoint = rw.Checkpoint(model, optimizer, sampler=sampler, every=6)
first = checkpoint.restore()
assert first == (6 if rw.size() == 2 else 0)
for batch in sampler:
    leaves = rw.size() == 3 and rw.rank() == 0 and optimizer.session.step == 3
    if leaves:
        training.leave()
    optimizer.zero_grad()
    model(torch.ones(len(batch), 4)).mean().backward()
    optimizer.step()
    if first:
        assert optimizer.last.contributors == (0, 1), optimizer.last
    if leaves:
        break
    if checkpoint.step():
        checkpoint.wait()
        break
rw.shutdown()
