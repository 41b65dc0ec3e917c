"""missing="skip": what a residual or a velocity holds of a gradient arrives in steps in which no rank has one, and a
parameter of which nothing arrives is left alone, with its weight decay and its momentum."""

import torch

import ringwood.torch as rw

torch.set_num_threads(1)
SHAPE = (40, 40)
gradient = torch.randn(SHAPE, generator=torch.Generator().manual_seed(3))


def trained(steps, inner, wire="fp32", **named):
    """Gradients of the second parameter in every other step; what they sum up to, and where the parameter is."""
    rw.init(wire=wire)
    always, rare = torch.nn.Parameter(torch.zeros(9)), torch.nn.Parameter(torch.zeros(SHAPE))
    optimizer = rw.DistributedOptimizer(inner([always, rare]), [("always", always), ("rare", rare)], missing="skip", **named)
    for step in range(steps):
        before = rare.detach().clone()
        optimizer.zero_grad()
        (always.sum() + (0 if step % 2 else (rare * gradient).sum())).backward()
        optimizer.step()
    return optimizer, rare.detach(), not torch.equal(before, rare)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=1.0)


for settings in ({"route": "sparse", "density": 0.1}, {"wire": "int8"}, {"wire": "bf16"}):
    optimizer, rare, moved = trained(10, sgd, **settings)
    owed = rw.allreduce(torch.from_numpy(optimizer.session.residual("rare").copy()).view(SHAPE))
    torch.testing.assert_close(owed - rare, 5 * gradient, rtol=1e-3, atol=1e-3)
    assert moved or "wire" in settings, settings
    rw.shutdown()

optimizer, rare, moved = trained(120, sgd, momentum_correction=0.5)  # its velocity goes on alone, as where tensors are sparse
assert moved
torch.testing.assert_close(-rare, 60 * gradient / (1 - 0.5), rtol=0.03, atol=0.03)
rw.shutdown()

optimizer, _, moved = trained(4, lambda parameters: torch.optim.SGD(parameters, lr=1.0, momentum=0.9, weight_decay=0.1))
assert not moved
rw.shutdown()
