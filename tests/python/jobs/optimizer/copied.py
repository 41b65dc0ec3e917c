"""A model that trains is copied and saved whole, as for an average of its weights; copies have nothing of Ringwood. An
optimizer is not copied."""

import copy
import io
import pickle

import torch
from refusals import refused

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)


def trained():
    rw.init()
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2))
    rw.broadcast_parameters(model.state_dict())
    return model, rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())


def copies(model, optimizer):
    """Which know nothing of hooks: of an average the AveragedModel."""
    saved = io.BytesIO()
    torch.save(model, saved)
    assert b"ringwood" not in saved.getvalue()  # it is read where there is none
    saved.seek(0)
    average = torch.optim.swa_utils.AveragedModel(model)
    for made in (copy.deepcopy(model), average, torch.load(saved, weights_only=False)):
        for _ in range(1 + rw.rank()):  # a forward of the model itself would wait for the other rank
            made(torch.full((3, 4), float(rw.rank()))).sum().backward()
        assert optimizer.last is None
    return average


model, optimizer = trained()
rw.elastic(model, optimizer, rw.Sampler(8, 4))
copies(model, optimizer)
rw.shutdown()
model, optimizer = trained()
rw.broadcast_buffers(model)
average = copies(model, optimizer)
for copied in (copy.copy, copy.deepcopy, pickle.dumps):
    refused(ringwood.RefusedError, ["DistributedOptimizer", "state_dict()"], copied, optimizer)
optimizer.zero_grad()
model(torch.full((3, 4), float(rw.rank()))).sum().backward()
optimizer.step()
average.update_parameters(model)
assert len(set(rw.gather_texts(str(model[1].running_mean.tolist())))) == 2  # each rank's own again, after the forward
rw.shutdown()
