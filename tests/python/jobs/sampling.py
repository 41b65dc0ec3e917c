"""A DataLoader with workers that run ahead takes its batches from the global sample cursor: every sample of a pass is
in one committed step, also those of a rank that was late, and those that a broken loop had handed out."""

import contextlib

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

import ringwood.torch as rw
from ringwood import InvalidError, RefusedError

SAMPLES, PASSES = 53, 3
WORKERS, PREFETCH = 2, 2

torch.set_num_threads(1)
rw.init()
model = torch.nn.Linear(1, 1)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-4), model.named_parameters())
rw.broadcast_parameters(model.state_dict())
session = optimizer.session
sampler = rw.Sampler(SAMPLES, batch_size=8, seed=7, ahead=WORKERS * PREFETCH)
assert len(sampler) == 7
data = TensorDataset(torch.arange(SAMPLES), torch.arange(SAMPLES, dtype=torch.float32).unsqueeze(1))
loader = DataLoader(data, batch_sampler=sampler, num_workers=WORKERS, prefetch_factor=PREFETCH)

used = np.zeros((PASSES, SAMPLES), np.int64)
orders = []
while sampler.passes < PASSES:
    order = []
    for indices, rows in loader:
        during = sampler.passes
        late = session.rank == 1 and session.step in (2, 6)  # the last one is of the last step of a pass
        optimizer.zero_grad()
        optimizer.weight = 0 if late else sampler.weight
        model(rows).mean().backward()
        optimizer.step()
        if optimizer.weight:
            assert len(indices) == optimizer.weight
            used[during, indices.numpy()] += 1
            order += indices.tolist()
        sampler.committed(optimizer.last)
        if session.step == 4:
            break  # what the workers have prefetched comes again
    orders.append(order)
session.allreduce(used)
assert (used == 1).all(), used
assert orders[0] != orders[-1][:len(orders[0])]
state = sampler.state_dict()
again = rw.Sampler(SAMPLES, batch_size=8, seed=7, ahead=WORKERS * PREFETCH)
again.load_state_dict(state)
assert again.share() == sampler.share() and again.passes == PASSES
try:
    rw.Sampler(SAMPLES, batch_size=9, seed=7, ahead=WORKERS * PREFETCH).load_state_dict(state)
except InvalidError as error:
    assert "batch = 8" in str(error), error
else:
    raise AssertionError("a state of another batch was taken")
try:
    list(zip(range(2), rw.Sampler(SAMPLES, batch_size=8)))
except RefusedError as error:
    assert "ahead" in str(error) and "accumulate gradients" in str(error), error
else:
    raise AssertionError("a loader ran ahead of a sampler that is not made for it")


def trained(size):
    """The weights after a pass whose batches are divided into parts of `size`; each sample is used once."""
    cursor, used = rw.Sampler(SAMPLES, batch_size=16, seed=7), np.zeros(SAMPLES, np.int64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    for indices, rows in DataLoader(data, batch_sampler=cursor):
        optimizer.zero_grad()
        optimizer.weight = cursor.weight
        parts = list(zip(indices.split(size), rows.split(size)))
        for number, (numbers, part) in enumerate(parts, 1):
            with optimizer.no_sync() if number < len(parts) else contextlib.nullcontext():
                (model(part).square().sum() / len(rows)).backward()
            used[numbers.numpy()] += cursor.weight > 0
        optimizer.step()
        cursor.committed(optimizer.last)
    assert (session.allreduce(used) == 1).all(), used
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


torch.testing.assert_close(trained(3), trained(16))
rw.shutdown()
