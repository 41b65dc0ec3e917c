"""An optimizer for each parameter that steps inside backward, in a hook: as soon as a gradient is there it is averaged, used and
let go. The weights are those of steps after backward, whatever is done with missing gradients."""

import copy

import torch

import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
torch.manual_seed(4)
start = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
rw.broadcast_parameters(start.state_dict())
inputs = torch.randn(5, 3, 4, generator=torch.Generator().manual_seed(rw.rank()))


def after_backward():
    model = copy.deepcopy(start)
    optimizer = rw.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.01), model.named_parameters())
    for batch in inputs:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return model


def inside(missing):
    model = copy.deepcopy(start)
    optimizers = {parameter: rw.DistributedOptimizer(torch.optim.Adam([parameter], lr=0.01), [(name, parameter)], missing=missing)
                  for name, parameter in model.named_parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad(set_to_none=True)

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(step)
    for batch in inputs:
        model(batch).square().mean().backward()
        assert all(parameter.grad is None for parameter in optimizers)
    return model


expected = after_backward()
for missing in ("error", "zero", "skip"):
    for ours, theirs in zip(inside(missing).parameters(), expected.parameters()):
        torch.testing.assert_close(ours, theirs)
rw.shutdown()
