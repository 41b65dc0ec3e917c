"""Two passes a step are one exchange of their sum, whichever parameters each reaches; more passes are exchanged again,
which changes nothing; a parameter without gradient is named."""

import torch

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
model = torch.nn.Linear(4, 2)
model.register_parameter("idle", torch.nn.Parameter(torch.zeros(3)))
rw.broadcast_parameters(model.state_dict())
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(),
                                    momentum_correction=0, route="dense", backward_passes_per_step=2)
inputs = torch.arange(8.0).view(2, 4) + rw.rank()
optimizer.zero_grad()
for row in inputs:
    model(row).sum().backward()
try:
    optimizer.step()
    raise AssertionError("a parameter without gradient went unnoticed")
except ringwood.RefusedError as error:
    assert "idle" in str(error) and "weight" not in str(error), error
optimizer.missing = "zero"
optimizer.step()
expected = sum(torch.arange(8.0).view(2, 4).sum(0) + 2 * rank for rank in range(rw.size())) / rw.size()
torch.testing.assert_close(model.weight.grad, expected.expand(2, 4))
assert optimizer.last.step == 1
optimizer.zero_grad()
for row in (*inputs, *inputs, inputs[0]):  # five: two exchanges, and step() brings what the fifth added
    model(row).sum().backward()
optimizer.step()
assert optimizer.last.step == 4
first = sum(torch.arange(4.0) + rank for rank in range(rw.size())) / rw.size()
torch.testing.assert_close(model.weight.grad, (2 * expected + first).expand(2, 4))
assert not model.idle.grad.any()
optimizer.zero_grad()

# Passes whose gradients were zeroed are forgotten; what was gathered and then dropped is missing.
model(inputs[0]).sum().backward()
optimizer.zero_grad()
for row in inputs:
    model(row).sum().backward()
optimizer.step()
torch.testing.assert_close(model.weight.grad, expected.expand(2, 4))
optimizer.missing = "error"
with optimizer.no_sync():
    model(inputs[0]).sum().backward()
model.bias.grad = None
try:
    optimizer.step()
    raise AssertionError("a gradient that was dropped went unnoticed")
except ringwood.RefusedError as error:
    assert "bias" in str(error) and "idle" in str(error) and "weight" not in str(error), error
optimizer.missing = "zero"
optimizer.step()
assert optimizer.last.step == 6 and not model.bias.grad.any()
optimizer.zero_grad()

# The last pass returns averages, also where none reaches every parameter and each must have a gradient.
optimizer.missing = "error"
(model.weight.sum() * rw.rank()).backward()
assert not optimizer.averaged
(model.bias.sum() + model.idle.sum()).backward()
assert optimizer.averaged
torch.testing.assert_close(model.weight.grad, torch.full((2, 4), (rw.size() - 1) / 2))
optimizer.step()
assert optimizer.last.step == 7
rw.shutdown()
