"""A script for Horovod with its import changed: the whole batch in one process gives the same weights; ranks whose data
ends early join."""

import torch
from torch import nn

import ringwood.horovod as hvd

hvd.init()
rank, size = hvd.rank(), hvd.size()


def make():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2))


def batch(of, step):
    random = torch.Generator().manual_seed(100 * of + step)
    return torch.randn(6, 8, generator=random), torch.randint(2, (6,), generator=random)


def train(model, optimizer, batches):
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()


def alike(model, reference):
    for mine, its in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-6)


def alone(steps, factor, ranks_of):
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * factor, momentum=0.9)
    train(model, optimizer, [[torch.cat(parts) for parts in zip(*(batch(of, step) for of in ranks_of(step)))]
                             for step in range(steps)])
    return model


def distributed(steps, join=False, **arguments):
    model = make()
    if rank:
        nn.init.zeros_(model[0].weight)  # the root's are taken
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, **arguments)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    train(model, optimizer, [batch(rank, step) for step in range(steps)])
    if join:
        assert hvd.join() == size - 1
    return model


# What is sent together, and how, changes nothing; each job has one optimizer of its own.
for arguments in ({}, {"op": hvd.Sum}, {"compression": hvd.Compression.none, "gradient_predivide_factor": 2.0,
                                        "num_groups": 2}):
    factor = size if arguments.get("op") is hvd.Sum else 1
    alike(distributed(8, **arguments), alone(8, factor, lambda step: range(size)))
    hvd.shutdown()
    hvd.init()

# A sum is one of its job: the next one's is no multiple of it, and without a job the optimizer is as it was.
model = nn.Linear(1, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
inner = torch.optim.SGD(model.parameters(), lr=1.0)
for _ in range(2):
    optimizer = hvd.DistributedOptimizer(inner, op=hvd.Sum)
    before = model.bias.item()
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    assert abs(before - model.bias.item() - size) < 1e-5, (before, model.bias.item())
    optimizer.zero_grad()
    hvd.shutdown()
    model(torch.ones(1, 1)).sum().backward()
    inner.step()
    inner.zero_grad()
    hvd.init()

# Of ranks that have joined nothing is in a sum.
model = nn.Linear(1, 1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), op=hvd.Sum)
moved = []
for step in range(1 + rank):
    before = model.bias.item()
    optimizer.zero_grad()
    model(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    moved.append(before - model.bias.item())
hvd.join()
assert all(abs(by - (size - step)) < 1e-5 for step, by in enumerate(moved)), moved
hvd.shutdown()
hvd.init()

model = distributed(3 + rank, join=True)
alike(model, alone(2 + size, 1, lambda step: range(max(0, step - 2), size)))
for arguments, words in (({"op": hvd.Adasum}, "Adasum"), ({"process_set": hvd.ProcessSet([0])}, "process set")):
    try:
        hvd.DistributedOptimizer(torch.optim.SGD(make().parameters(), lr=1.0), **arguments)
    except hvd.HorovodInternalError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
hvd.shutdown()
print(f"rank {rank}: all as it should be", flush=True)
