"""A model that is in DistributedDataParallel too is refused: its averages would take the place of the
DistributedOptimizer's, in silence. One that does not average, or that nobody uses any more, is no hindrance."""

import torch
from refusals import refused
from torch.nn.parallel import DistributedDataParallel

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
rw.init()
inputs = torch.full((1, 4), rw.rank() + 1.0)


def distributed(model):
    rw.broadcast_parameters(model.state_dict())
    return rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())


def averages(model, optimizer):
    optimizer.zero_grad()
    model(inputs).sum().backward()
    optimizer.step()
    average = (rw.size() + 1) / 2
    return all(bool((parameter.grad == average).all()) for parameter in model.parameters() if parameter.dim() == 2)


model = torch.nn.Linear(4, 2)
DistributedDataParallel(model)  # of an earlier part of the script
assert averages(model, distributed(model))

model = torch.nn.Linear(4, 2)
optimizer = distributed(model)
with DistributedDataParallel(model).no_sync():
    assert averages(model, optimizer)

for first in (False, True):
    model = torch.nn.Sequential(torch.nn.Linear(4, 2))
    wrapped = DistributedDataParallel(model) if first else None
    optimizer = distributed(model)
    wrapped = wrapped or DistributedDataParallel(model)
    words = ["DistributedDataParallel", "0.weight", "0.bias", "without it", "rw.communication_hook"]
    refused(ringwood.RefusedError, words, averages, wrapped, optimizer)
rw.shutdown()
