"""What a loop brings along that had another optimizer: the state of that one, passes that it holds back, and weights that it
loads into the model."""

import pathlib
import sys

import torch

import ringwood.torch as rw
from ringwood.errors import InvalidError, RefusedError

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from refusals import refused  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(1)
rw.init()
model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))


def make():
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return rw.LocalSteps(model, inner, every=2)


def backward(optimizer):
    optimizer.zero_grad()
    with optimizer.no_sync():
        model(torch.ones(2, 4)).square().mean().backward()
    model(torch.full((2, 4), 1.0 + rw.rank())).square().mean().backward()


optimizer = make()
rw.broadcast_parameters(model.state_dict())
plain = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
backward(optimizer)
plain.step()
for state in (plain.state_dict(), {**plain.state_dict(), "ringwood": {"velocity": {}}}):  # a DistributedOptimizer's, too
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == 0.2 and len(optimizer.state) == 4
refused(InvalidError, ["momentum correction"], optimizer.load_state_dict,
        {**plain.state_dict(), "ringwood": {"velocity": {"0.weight": torch.ones(3, 4)}}})
rw.broadcast_parameters(model.state_dict())
for step in range(4):
    backward(optimizer)
    optimizer.step()
assert len(set(rw.gather_texts(str(model.state_dict())))) == 1, "after a round all ranks have the same"

# The optimizer steps what the model had before: that is said with the next round.
model[1].load_state_dict({name: value.clone() for name, value in model[1].state_dict().items()}, assign=True)
backward(optimizer)
optimizer.step()
refused(RefusedError, ["2 parameter(s) of the model were replaced since LocalSteps was made: 1.weight, 1.bias"], optimizer.step)
rw.shutdown()
rw.init()
optimizer = make()
model[1] = torch.nn.Linear(3, 2)
refused(RefusedError, ["1.weight, 1.bias"], optimizer.step)  # and before the first step
print("all as it should be", flush=True)
rw.shutdown()
