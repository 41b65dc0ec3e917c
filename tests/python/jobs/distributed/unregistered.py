"""Training with DistributedDataParallel whose hook nobody has registered, as where a framework leaves it out. With
`register` somebody has."""

import sys

import torch

import ringwood.torch as rw

rw.init()
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
state = rw.HookState(model.named_parameters())
if "register" in sys.argv:
    model.register_comm_hook(state, rw.communication_hook)
model(torch.ones(1, 3)).sum().backward()
torch.distributed.destroy_process_group()
rw.shutdown()
