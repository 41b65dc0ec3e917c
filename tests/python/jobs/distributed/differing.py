"""Rank 1 asks for something else than the others, with as many bytes: the call that argv names is an error on all ranks
that names both sides."""

import datetime
import sys

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

import ringwood
import ringwood.torch as rw

how = sys.argv[1]
dist.init_process_group("ringwood", timeout=datetime.timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
odd = rank == 1
tensor = torch.ones(size * 2, dtype=torch.int32 if odd else torch.float32)
parts = [torch.empty_like(tensor) for _ in range(size)]
floats, share = torch.ones(size * 2), torch.ones(2)
op = ReduceOp.MAX if odd else ReduceOp.SUM
types, operations = ("float32", "int32"), ("max of",)


def swapped():
    """Tags of one line, received in another order than sent."""
    tags = (256, 0) if odd else (0, 256)
    works = [dist.irecv(floats, 0, tag=tag) if odd else dist.isend(floats, 1, tag=tag) for tag in tags]
    for work in works:
        work.wait()


calls = {  # what is called, and words of the error
    "all_gather": (lambda: dist.all_gather(parts, tensor), types),
    "gather": (lambda: dist.gather(tensor, parts if rank == 0 else None), types),
    "all_to_all_single": (lambda: dist.all_to_all_single(parts[0], tensor), types),
    "broadcast": (lambda: (dist.broadcast(tensor, 0), dist.barrier()), types),  # the root is done at once
    "send": (lambda: dist.recv(tensor, 0) if odd else dist.send(tensor, 1), types),
    "tag": (swapped, ("tag 256" if odd else "tag 0", "modulo 256")),
    "all_reduce": (lambda: dist.all_reduce(floats, op), operations),
    "average": (lambda: dist.all_reduce(floats, ReduceOp.AVG if odd else ReduceOp.SUM), ("average of",)),
    "average_int": (lambda: dist.all_reduce(torch.arange(4), ReduceOp.AVG if odd else ReduceOp.SUM), ("different",)),
    "reduce": (lambda: (dist.reduce(floats, 0, op), dist.barrier()), operations),
    "reduce_scatter": (lambda: dist.reduce_scatter_tensor(share, floats, op), operations),
    "session": (lambda: rw.allreduce(floats, "max" if odd else "sum"), operations),
    "root": (lambda: (dist.broadcast(floats, rank), dist.barrier()), ("called different collectives",))}
call, words = calls[how]
try:
    call()
except ringwood.InvalidError as error:
    assert all(word in str(error) for word in (*words, "rank 0", "rank 1")), error
else:
    sys.exit(f"no error: {tensor} {floats}")
print(f"rank {rank} heard of it", flush=True)
