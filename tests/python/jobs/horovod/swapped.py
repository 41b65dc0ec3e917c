"""Rank 1 swaps two calls that both ranks have made before: an error of that call on all ranks, or of the next one where
no message of it comes from the other rank. argv names what the two calls differ in."""

import sys

import torch

import ringwood
import ringwood.horovod as hvd

hvd.init()
rank, five = hvd.rank(), torch.ones(5)
pairs = {"operation": [lambda: hvd.allreduce(five, op=hvd.Sum), lambda: hvd.allreduce(five, op=hvd.Average)],
         "factor": [lambda: hvd.allreduce(five, postscale_factor=2.0), lambda: hvd.allreduce(five, postscale_factor=3.0)],
         "shape": [lambda: hvd.allreduce(torch.ones(2, 3)), lambda: hvd.allreduce(torch.ones(3, 2))],
         "name": [lambda: hvd.allreduce(five, name="one"), lambda: hvd.allreduce(five, name="two")],
         "gathered": [lambda: hvd.allgather(five, name="one"), lambda: hvd.allgather(five, name="two")],
         "root": [lambda: hvd.broadcast(five, 0), lambda: hvd.broadcast(five, 1)]}
words = {"operation": ["allreduce Sum", "allreduce Average"], "factor": ["and 2.0", "and 3.0"],
         "shape": ["(2, 3)", "(3, 2)"], "name": ['named "one"', 'named "two"'], "gathered": ['named "one"', 'named "two"']}
how = sys.argv[1]
for call in pairs[how]:
    call()
if how == "root":
    hvd.broadcast(five, rank)
    pairs[how] = [hvd.barrier, hvd.barrier]
try:
    pairs[how][rank]()
except hvd.HorovodInternalError as error:
    assert isinstance(error, ringwood.InvalidError) and "called different collectives" in str(error), error
    assert how == "root" or "What this rank calls is all" in str(error) and words[how][rank] in str(error), error
else:
    sys.exit("no error")
print(f"rank {rank} heard of it", flush=True)
