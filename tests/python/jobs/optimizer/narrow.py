"""A model in bfloat16 with a float32 parameter, over two ranks: what travels, and the averages. Whole numbers, so that every
sum is exact. argv: how, the bytes of an element of its bfloat16 gradients on the wire, and the device."""

import sys

import torch

import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
how, width, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]
parameters = {"matrix": torch.nn.Parameter(torch.zeros(64, 32, dtype=torch.bfloat16)),
              "scale": torch.nn.Parameter(torch.zeros(100)),
              "kernel": torch.nn.Parameter(torch.zeros(8, 4, 2, 2, dtype=torch.bfloat16).to(memory_format=torch.channels_last))}
if how == "further":  # one all-reduce, of one type
    del parameters["scale"]
    other = torch.nn.Linear(1, 1)
    rw.DistributedOptimizer(torch.optim.SGD(other.parameters()), other.named_parameters())
parameters = {name: torch.nn.Parameter(parameter.detach().to(device)) for name, parameter in parameters.items()}
model = torch.nn.Module()
for name, parameter in parameters.items():
    model.register_parameter(name, parameter)
model.forward = lambda rank, step: sum((p * factors(p, rank, step)).sum() for p in parameters.values())
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
state = None
if how == "hook":
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
    state = rw.HookState(model.module.named_parameters())
    model.register_comm_hook(state, rw.communication_hook)
else:
    optimizer = rw.DistributedOptimizer(optimizer, parameters.items(), momentum_correction=0.5 if how == "velocity" else None)


def factors(parameter, rank, step):
    return ((torch.arange(parameter.numel()) * (rank + 2) + step) % 8).view(parameter.shape).to(parameter)


for step in range(3):
    optimizer.zero_grad(set_to_none=step == 1)
    model(rw.rank(), step).backward()
    addresses = {name: p.grad.data_ptr() for name, p in parameters.items()}
    optimizer.step()
    for name, p in parameters.items():
        assert p.grad.dtype == p.dtype and p.grad.data_ptr() == addresses[name], name
        expected = (factors(p, 0, step) + factors(p, 1, step)) / 2
        assert how == "velocity" or torch.equal(p.grad, expected), (name, step, p.grad, expected)
    result = (state or optimizer).last
    narrow = 64 * 32 + 8 * 4 * 2 * 2
    wide = 100 * ("scale" in parameters)
    assert result.dense_bytes == width * narrow + 4 * wide, (result.dense_bytes, narrow)
    assert result.dense_equivalent_bytes == result.dense_bytes
rw.shutdown()
