"""What must be alike on all ranks and is not: parameters are refused before the first step, or told later;
buffers follow rank 0 as with DistributedDataParallel."""

import atexit
import contextlib
import io

import torch
import torch.distributed as dist
from refusals import refused
from torch.nn.parallel import DistributedDataParallel

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
if not dist.is_initialized():  # one for all scripts of a process
    dist.init_process_group("gloo")
    atexit.register(dist.destroy_process_group)


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 1))


def train(trained, optimizer, steps):
    random = torch.Generator().manual_seed(20 + rw.rank())
    for step in range(steps):
        optimizer.zero_grad()
        (trained(torch.randn(5, 4, generator=random)) ** 2).mean().backward()
        optimizer.step()


ours, theirs = network(1), network(1)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(ours.parameters(), 0.1), ours.named_parameters())
rw.broadcast_buffers(ours)
train(ours, optimizer, 4)
train(DistributedDataParallel(theirs), torch.optim.SGD(theirs.parameters(), 0.1), 4)
for (name, value), other in zip(ours.state_dict().items(), theirs.state_dict().values()):
    torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-5, msg=lambda text: f"{name}: {text}")
ours.eval()
ours(torch.zeros(1, 4))  # nobody else does

# One rank loses its way after the start.
with torch.no_grad():
    ours[2].bias += rw.rank()
ours.train()
with contextlib.redirect_stderr(io.StringIO()) as told:
    train(ours, optimizer, 16)
assert ("1 of 6 parameters differ from rank to rank: 2.bias." in told.getvalue()) == (rw.rank() == 0), told.getvalue()
rw.shutdown()

rw.init()
forgotten = network(1 + rw.rank())
optimizer = rw.DistributedOptimizer(torch.optim.SGD(forgotten.parameters(), 0.1), forgotten.named_parameters())
refused(ringwood.RefusedError, ["4 of 6", "0.weight", "rw.broadcast_parameters(model.state_dict())"], train,
        forgotten, optimizer, 1)
rw.shutdown()
