"""zero_grad(set_to_none=True) frees the gradients, and steps are those of gradients that stay: with parameters that
get none, too, and where a rank has no samples. On a device that is the default. The library is asked and told only where
it has to be: zero_grad comes between two steps, and a gradient at the place of the one before is where the library knows."""

import sys
import weakref

import torch

import ringwood.torch as rw


def train(job_rank, set_to_none):
    torch.manual_seed(1)
    model = torch.nn.ModuleList(torch.nn.Linear(5, 3) for _ in range(2))
    optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
                                        model.named_parameters(), missing="zero", route="dense")
    for step in range(6):
        before = [weakref.ref(parameter.grad) for parameter in model.parameters() if parameter.grad is not None]
        optimizer.zero_grad(set_to_none=set_to_none)
        assert not set_to_none or not any(gradient() is not None for gradient in before), "held after it was let go"
        optimizer.weight = 1.0 + job_rank
        if step == 3 and job_rank == 1:
            optimizer.weight = 0.0
        else:
            inputs = torch.rand(4, 5, generator=torch.Generator().manual_seed(10 * step + job_rank))
            model[0 if step % 2 else step // 2 % 2](inputs).square().sum().backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


results = []
for choice in (False, True):
    rw.init()
    results.append(train(rw.rank(), choice))
    rw.shutdown()
assert torch.equal(*results), results

rw.init()
layer = torch.nn.Linear(2, 2)
rw.broadcast_parameters(layer.state_dict())
optimizer = rw.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1), layer.named_parameters(), route="dense")
optimizer.zero_grad()  # in host memory they stay
assert layer.weight.grad is not None and not layer.weight.grad.any()
optimizer._gradients.on_device = True  # as where there is one
optimizer.zero_grad()
assert layer.weight.grad is None and layer.bias.grad is None
optimizer.weight = 0.0 if rw.rank() else 1.0
if optimizer.weight:
    layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
assert torch.equal(layer.weight.grad, torch.ones(2, 2)), layer.weight.grad
library, told, kept = optimizer.session._library, [], [layer.weight.grad, layer.bias.grad]
tell, library.rebind = library.rebind, lambda *place: told.append(place) or tell(*place)
optimizer.zero_grad(set_to_none=True)
layer.weight.grad, layer.bias.grad = kept[0].zero_(), kept[1].zero_()
optimizer.weight = 1.0
layer(torch.ones(1, 2)).sum().backward()
optimizer.step()
assert not told and layer.weight.grad is kept[0] and torch.equal(kept[0], torch.ones(2, 2)), (told, kept)
optimizer.zero_grad(set_to_none=True)
layer(torch.ones(1, 2)).sum().backward()
assert len(told) == 2 and torch.equal(layer.weight.grad, torch.ones(2, 2)), told
library.rebind = tell
optimizer.step()
rw.shutdown()
optimizer.zero_grad()  # after the end, too
assert layer.weight.grad is None
sys.stdout.write("the same\n")
