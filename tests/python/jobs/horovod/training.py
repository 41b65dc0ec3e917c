"""A script for Horovod with its import changed: the whole batch in one process gives the same weights; ranks whose data
ends early join."""

import contextlib

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


def train(model, optimizer, batches, factor=1, norm=None):
    """`factor`: of the loss; `norm`: gradients are clipped to it, in Horovod's way where there are ranks."""
    for inputs, targets in batches:
        optimizer.zero_grad()
        (factor * nn.functional.cross_entropy(model(inputs), targets)).backward()
        if norm is None:
            optimizer.step()
            continue
        getattr(optimizer, "synchronize", lambda: None)()
        assert nn.utils.clip_grad_norm_(model.parameters(), norm) > norm
        with getattr(optimizer, "skip_synchronize", contextlib.nullcontext)():
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

# Gradients are sums when synchronize() returns, so that they are clipped as sums; a second pass adds to them.
model, reference = make(), make()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), op=hvd.Sum)
train(model, optimizer, [batch(rank, step) for step in range(5)], norm=0.1)
train(reference, torch.optim.SGD(reference.parameters(), lr=0.1),
      [[torch.cat(parts) for parts in zip(*(batch(of, step) for of in range(size)))] for step in range(5)], size, 0.1)
alike(model, reference)
for backwards in (1, 2, 3):
    optimizer.zero_grad()
    with optimizer.no_sync() if backwards == 3 else contextlib.nullcontext():
        for _ in range(backwards):
            (rank * model[2].bias.sum() + sum(0.0 * p.sum() for p in model.parameters())).backward()
            if backwards == 2:
                torch.autograd.grad(model[2].bias.sum(), model[2].bias)  # adds nothing
    before = model[2].bias.detach().clone()
    optimizer.step()
    total = backwards * sum(range(size))
    torch.testing.assert_close(model[2].bias.grad, torch.full((2,), float(total)))
    torch.testing.assert_close(before - model[2].bias, torch.full((2,), 0.1 * total))
optimizer.zero_grad()
model(batch(rank, 0)[0]).sum().backward()
model[0].bias.sum().backward()  # reaches one parameter: the others stay sums
optimizer.step()
torch.testing.assert_close(model[2].bias.grad, torch.full((2,), 6.0 * size))
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
