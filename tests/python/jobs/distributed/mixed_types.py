"""Rank 1 has integers where the others have floats of the same size: the call that argv names is an error on all ranks."""

import datetime
import sys

import torch
import torch.distributed as dist

import ringwood
import ringwood.torch  # noqa: F401

how = sys.argv[1]
dist.init_process_group("ringwood", timeout=datetime.timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
tensor = torch.ones(size * 2, dtype=torch.int32 if rank == 1 else torch.float32)
parts = [torch.empty_like(tensor) for _ in range(size)]
calls = {"all_gather": lambda: dist.all_gather(parts, tensor),
         "gather": lambda: dist.gather(tensor, parts if rank == 0 else None),
         "all_to_all_single": lambda: dist.all_to_all_single(parts[0], tensor),
         "broadcast": lambda: (dist.broadcast(tensor, 0), dist.barrier()),  # the root is done at once
         "send": lambda: dist.recv(tensor, 0) if rank == 1 else dist.send(tensor, 1)}
try:
    calls[how]()
except ringwood.InvalidError as error:
    assert "int32" in str(error) and "float32" in str(error) and "rank 1" in str(error), error
else:
    sys.exit(f"no error: {tensor}")
print(f"rank {rank} heard of it", flush=True)
