"""Saves after every step as where tensors lie on a device, whose copies run on beside the next forward: what is to be
called at the end is noted once."""

import torch

import ringwood.torch as rw
from ringwood import job
from ringwood.snapshot import Snapshot


class Running(Snapshot):
    running = True


torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
rw.init()
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
checkpoint = rw.Checkpoint(model, optimizer, every=1)
checkpoint._snapshot = Running()
noted = []
for _ in range(6):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).mean().backward()
    optimizer.step()
    assert checkpoint.step()
    noted.append(len(job.current().leaving))
assert noted == noted[:1] * 6, noted
checkpoint.wait()
assert optimizer.session.checkpoint_progress.completed == 6
rw.shutdown()
