"""Layers that are frozen and trained again: with missing="skip", with an optimizer that is wrapped anew, and under
LocalSteps. One that is unfrozen behind the ranks' backs is refused."""

import torch
from refusals import refused

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
rw.broadcast_parameters(model.state_dict())
torch.manual_seed(rw.rank())  # its samples
start = {name: value.clone() for name, value in model.state_dict().items()}


def train(optimizer):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()


def moved():
    """Whether each of the two layers has moved since the start; all ranks must have the same parameters."""
    for value in model.state_dict().values():
        assert torch.equal(rw.allreduce(value, "max"), value) and torch.equal(rw.allreduce(value, "min"), value)
    return [not torch.equal(start[f"{layer}.weight"], model[layer].weight) for layer in range(2)]


def anew():
    rw.shutdown()
    rw.init()
    model.load_state_dict(start)
    for parameter in model.parameters():
        parameter.grad = None
        parameter.requires_grad_(True)


optimizer = rw.DistributedOptimizer(torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1),
                                    model.named_parameters(), missing="skip")
model[0].requires_grad_(False)
train(optimizer)
assert moved() == [False, True]
model[0].requires_grad_(True)
train(optimizer)
assert moved() == [True, True]

anew()
model[0].requires_grad_(False)
optimizer = rw.DistributedOptimizer(torch.optim.AdamW(model.parameters(), lr=0.1), model.named_parameters())
train(optimizer)
dense_bytes = optimizer.last.dense_bytes
assert moved() == [False, True]
model[0].requires_grad_(True)
refused(ringwood.RefusedError, ["2 parameter(s)", "unfrozen", 'missing="skip"'], train, optimizer)
rw.shutdown()
rw.init()
optimizer = rw.DistributedOptimizer(optimizer.inner, model.named_parameters())
train(optimizer)
assert moved() == [True, True]
assert rw.size() == 1 or optimizer.last.dense_bytes > dense_bytes > 0

anew()  # a fine-tuner that adds the layer's group when it unfreezes it does what the refusal says
model[0].requires_grad_(False)
optimizer = rw.DistributedOptimizer(torch.optim.AdamW(model[1].parameters(), lr=0.1), model.named_parameters())
train(optimizer)
model[0].requires_grad_(True)
group = {"params": list(model[0].parameters()), "lr": 0.01}
refused(ringwood.RefusedError, ["cannot be added", ".inner.add_param_group(group)"], optimizer.add_param_group, group)
rw.shutdown()
optimizer.inner.add_param_group(group)
rw.init()
optimizer = rw.DistributedOptimizer(optimizer.inner, model.named_parameters())
train(optimizer)
assert moved() == [True, True]

anew()
optimizer = rw.LocalSteps(model, torch.optim.AdamW(model.parameters(), lr=0.1), every=2)
model[0].requires_grad_(False)
for _ in range(2):
    train(optimizer)
assert moved() == [False, True]
model[0].requires_grad_(True)
for _ in range(2):
    train(optimizer)
assert moved() == [True, True]

anew()
model[0].requires_grad_(False)
optimizer = rw.LocalSteps(model, torch.optim.AdamW(model.parameters(), lr=0.1), every=2)
train(optimizer)
model[0].requires_grad_(True)
refused(ringwood.RefusedError, ["2 parameter(s)", "unfrozen", "freeze them after it"], train, optimizer)
rw.shutdown()
