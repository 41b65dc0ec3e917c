"""Process groups are destroyed and made again at once, as a loop over experiments does; and beside a DistributedOptimizer,
which outlives them where rw.init() came first. At last rank 0 leaves while the others are still in calls of their own."""

import datetime
import os
import time

import torch
import torch.distributed as dist

import ringwood
import ringwood.torch as rw

for _ in range(5):
    dist.init_process_group("ringwood", timeout=datetime.timedelta(seconds=60))
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == dist.get_world_size()
    dist.destroy_process_group()
model = torch.nn.Linear(2, 2)
inner = torch.optim.SGD(model.parameters(), lr=0.1)
for first in (False, True) if "RINGWOOD_COORDINATOR" in os.environ else (False,):
    if first:
        rw.init()
    dist.init_process_group("ringwood")
    rw.init()
    optimizer = rw.DistributedOptimizer(inner, model.named_parameters())
    rw.broadcast_parameters(model.state_dict())
    dist.destroy_process_group()
    try:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        assert first and optimizer.last.step == 1
    except ringwood.RefusedError as error:
        assert not first and "was closed" in str(error), error
    rw.shutdown()
dist.init_process_group("ringwood")
rank, size = dist.get_rank(), dist.get_world_size()
others = dist.new_group(list(range(1, size)))
end, going = time.monotonic() + 1, torch.ones(1)
while rank != 0 and going:  # rank 0, whose server it may be, is in destroy_process_group meanwhile
    going = torch.tensor([float(time.monotonic() < end)])
    dist.all_reduce(going, dist.ReduceOp.MIN, group=others)
dist.destroy_process_group()
print("all as it should be", flush=True)
