"""A program that gives its numbers as arguments, as a function does that torch.multiprocessing.spawn has started: the
variables of a rank are not set. argv: "named": nor is that of the server."""

import os
import sys

import numpy
import torch

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)
rank, world = (int(os.environ.pop(name)) for name in ("RANK", "WORLD_SIZE"))
where = {"coordinator": os.environ.pop("RINGWOOD_COORDINATOR")} if "named" in sys.argv else {}
rw.init(rank=rank, world=world, **where)
assert (rw.rank(), rw.size(), rw.allreduce(rank, op="sum")) == (rank, world, sum(range(world)))
rw.shutdown()
with ringwood.Session(rank=rank, world=world, **where) as session:
    assert session.allreduce(numpy.array([rank]))[0] == sum(range(world))
assert not {"RANK", "WORLD_SIZE"} & set(os.environ), "the environment is the program's"
print(f"rank {rank} of {world} came twice", flush=True)
