"""Parameters of which each rank holds a part, as FSDP2 makes them, are refused by name, and what is for them is named."""

import torch
import torch.distributed as dist
from refusals import refused
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
if not dist.is_initialized():  # by a script before
    dist.init_process_group("gloo")
model = torch.nn.Linear(4, 4)
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model.weight = torch.nn.Parameter(distribute_tensor(model.weight.detach(), mesh, [Shard(0)]))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
words = ['"weight"', "DTensor", "FSDP2", 'init_process_group("ringwood")']
refused(ringwood.InvalidError, words, rw.broadcast_parameters, model.state_dict())
refused(ringwood.InvalidError, words, rw.DistributedOptimizer, optimizer, model.named_parameters())
refused(ringwood.InvalidError, words, rw.HookState, model.named_parameters())
refused(ringwood.InvalidError, words, rw.LocalSteps, model, optimizer, every=2)
rw.shutdown()
