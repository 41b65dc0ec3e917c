"""Both libraries in one process, in the order that argv names: each must still do its work."""

import sys

import numpy as np


def use_ringwood():
    from ringwood.library import load
    print("ringwood", load().version)


def use_torch():
    import torch
    torch.set_num_threads(1)
    weights = torch.ones(64, 64, requires_grad=True)
    (weights @ weights).sum().backward()
    assert weights.grad[0, 0].item() == 128


for name in sys.argv[1:]:
    {"torch": use_torch, "ringwood": use_ringwood}[name]()

import ringwood  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402  the wheel's own protobuf and sockets

store = dist.HashStore()
store.set("key", "value")
with ringwood.Session() as session:
    array = torch.full((1000,), float(session.rank))
    session.register("array", array)
    for _ in range(2):
        array.fill_(session.rank)
        session.ready("array")
        session.finish_step()
    assert array[0].item() == (session.world - 1) / 2
    use_torch()
    assert session.allreduce(np.ones(3, np.float32))[0] == session.world
