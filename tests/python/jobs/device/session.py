"""A session over CUDA tensors and pointers, without an optimizer."""

import numpy as np
import torch
from refusals import refused

import ringwood

with ringwood.Session() as session:
    tensor = torch.zeros(1000, device="cuda")
    assert session.device_support() == session.device_support(tensor.device.index) == ""
    memory = torch.zeros(7, device="cuda")
    session.register("tensor", tensor, route="dense")
    session.register("pointer", (memory.data_ptr(), 7), route="dense", device=tensor.device.index)
    refused(ringwood.InvalidError, ["is not where"], session.register, "array", np.zeros(3, np.float32))
    refused(ringwood.InvalidError, ["CUDA device"], session.rebind, "tensor", torch.zeros(1000))
    refused(ringwood.InvalidError, ["cuda", "CPU"], session.allreduce, tensor)
    total = sum(range(1, session.world + 1))
    for step in range(5):
        if step == 2:
            tensor = torch.zeros(1000, device="cuda")
            session.rebind("tensor", tensor)
        tensor.copy_(torch.arange(1000.0)).mul_(session.rank + step)
        memory.fill_(session.rank)
        session.begin_step(session.rank + 1)
        session.ready("tensor")
        session.ready("pointer")
        result = session.finish_step()
        assert result.total_weight == total and result.step == step + 1
        mean = sum((rank + 1) * (rank + step) for rank in range(session.world)) / total
        torch.testing.assert_close(tensor.cpu(), torch.arange(1000.0) * mean)
        mean = sum((rank + 1) * rank for rank in range(session.world)) / total
        torch.testing.assert_close(memory.cpu(), torch.full((7,), mean))
    assert not session.residual("tensor").any()
