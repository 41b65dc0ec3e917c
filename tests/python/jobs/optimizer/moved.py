"""Gradients whose memory moves, or is not what the ranks agreed on, after the optimizer was made: the session never
writes to memory that is gone, and an error stays one."""

import sys

import torch

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)


def optimizer_of(model):
    return rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters(),
                                   missing="zero", route="dense")


def train(set_to_none, moves):
    """In half of its steps a rank has no samples. `moves`: model.to moves parameters and their gradients."""
    torch.manual_seed(1)
    model = torch.nn.ModuleList([torch.nn.Conv2d(3, 4, 2), torch.nn.Conv2d(3, 4, 2)])
    optimizer = optimizer_of(model)
    for step in range(8):
        if moves and step == 2:
            optimizer.zero_grad(set_to_none=set_to_none)
            model.to(memory_format=torch.channels_last)
        optimizer.zero_grad(set_to_none=set_to_none)
        optimizer.weight = float((step + rw.rank()) % 2)
        if optimizer.weight:
            inputs = torch.rand(2, 3, 5, 5, generator=torch.Generator().manual_seed(step))
            model[step // 2 % 2](inputs).square().sum().backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


results = []
for chosen in ((False, False), (False, True), (True, False), (True, True)):
    rw.init()
    results.append(train(*chosen))
    rw.shutdown()
assert all(torch.allclose(result, results[0]) for result in results), results
assert torch.equal(results[0], results[2]) and torch.equal(results[1], results[3]), results

for choice in (False, True):
    rw.init()
    linear = torch.nn.Linear(5, 3, bias=False)
    rw.broadcast_parameters(linear.state_dict())
    optimizer = optimizer_of(linear)
    optimizer.zero_grad(set_to_none=choice)
    linear.double()
    for attempt in range(2):
        try:
            linear(torch.rand(4, 5).double()).sum().backward()
            raise AssertionError(f"gradients of another type went unnoticed, attempt {attempt}")
        except ringwood.InvalidError as error:
            assert "float64" in str(error), error
    rw.shutdown()
sys.stdout.write("the same\n")
