"""Process groups are destroyed and made again at once, as a loop over experiments does."""

import datetime

import torch
import torch.distributed as dist

import ringwood.torch  # noqa: F401

for time in range(5):
    dist.init_process_group("ringwood", timeout=datetime.timedelta(seconds=20))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == dist.get_world_size()
    dist.destroy_process_group()
print("all as it should be", flush=True)
