"""Gradients that the session cannot read where they lie: bfloat16, float16, complex64, channels_last, and ones that
autograd makes anew; and parameter groups, closures, no_sync. Integers, so that every sum is exact. argv:
the device, cpu or cuda, and the second group's route."""

import sys

import torch

import ringwood
import ringwood.torch as rw
from ringwood.staged import real

torch.set_num_threads(1)
rw.init()
device, route = sys.argv[1:]
last = torch.channels_last
# Named by what is special about each; all ones, so that the weights show what was subtracted.
parameters = {
    "plain": torch.ones(3, 4),
    "brain": torch.ones(5, 2, dtype=torch.bfloat16),
    "half": torch.ones(7, dtype=torch.float16),
    "channels": torch.ones(4, 3, 2, 2).contiguous(memory_format=last),
    "turned": torch.ones(6, 5).t(),
    "spectrum": torch.ones(3, 4, dtype=torch.complex64).t(),
}
parameters = {name: torch.nn.Parameter(value.to(device)) for name, value in parameters.items()}
assert not parameters["channels"].is_contiguous() and not parameters["turned"].is_contiguous()
groups = [{"params": [parameters["plain"], parameters["brain"]], "lr": 1.0},
          {"params": [parameters[name] for name in ("half", "channels", "turned", "spectrum")], "lr": 0.5,
           "route": route, "density": 1.0}]
try:
    rw.DistributedOptimizer(torch.optim.LBFGS(parameters.values()), parameters.items(),
                            momentum_correction=0)
    raise AssertionError("LBFGS went unnoticed")
except ringwood.InvalidError as error:
    assert "closure" in str(error)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(groups, lr=1.0), parameters.items(),
                                    momentum_correction=0, route="dense")
assert ([name for name in parameters if optimizer.session.route(name) == "tree"]
        == (["half", "channels", "turned", "spectrum"] if route == "sparse" else []))


def factors(name, rank, step):
    """A gradient of small integers in logical order: what the loss is multiplied with."""
    parts = real(parameters[name].detach())
    return ((torch.arange(parts.numel()) * (rank + 2) + step) % 8).view(parts.shape).to(parts)


def backward(step):
    loss = sum((real(p) * factors(name, rw.rank(), step)).float().sum() for name, p in parameters.items())
    loss.backward()
    return loss.detach()


def mean(name, steps):
    total = sum(factors(name, rank, step).double() for rank in range(rw.size()) for step in steps)
    return total / rw.size()


def check(expected_steps, before):
    for name, p in parameters.items():
        torch.testing.assert_close(real(p.grad).double(), mean(name, expected_steps), atol=0,
                                   rtol=1e-6 if p.dtype in (torch.float32, torch.complex64) else 1e-2)
        rate = 1.0 if name in ("plain", "brain") else 0.5
        torch.testing.assert_close(p.detach(), (before[name] - rate * p.grad).to(p.dtype))
        assert p.grad.dtype == p.dtype


def values():
    return {name: p.detach().clone() for name, p in parameters.items()}


for step in range(3):  # step 1: gradients that autograd makes anew
    before = values()
    optimizer.zero_grad(set_to_none=step == 1)
    backward(step)
    optimizer.step()
    check([step], before)

before = values()  # a closure, which zeroes by itself
def closure():
    optimizer.zero_grad()
    return backward(3)
loss = optimizer.step(closure)
assert loss.item() == sum((real(before[n]) * factors(n, rw.rank(), 3)).float().sum() for n in before).item()
check([3], before)

before = values()  # passes held back come along with the next
optimizer.zero_grad()
with optimizer.no_sync():
    backward(4)
backward(5)
optimizer.step()
check([4, 5], before)

before = values()  # and go by themselves at step() if there is no next
optimizer.zero_grad()
with optimizer.no_sync():
    backward(6)
optimizer.step()
check([6], before)
assert optimizer.last.step == 6
rw.shutdown()
