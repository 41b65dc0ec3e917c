"""One rank of the soak: a small step with a dense and a sparse tensor, and a checkpoint now and then."""

import os
import sys

import numpy

import ringwood

steps, every = int(sys.argv[1]), int(sys.argv[2])

with ringwood.Session() as session:
    rank = int(os.environ["RANK"])
    dense = numpy.zeros(4096, numpy.float32)
    sparse = numpy.zeros(65536, numpy.float32)
    session.register("dense", dense, route="dense")
    session.register("sparse", sparse, route="sparse", density=0.01)
    noise = numpy.random.default_rng(rank).standard_normal(sparse.size + 1024).astype(numpy.float32)
    while session.step < steps:
        session.begin_step()
        dense[:] = session.step % 7
        offset = session.step % 1024
        sparse[:] = noise[offset:offset + sparse.size]
        session.ready("dense")
        session.ready("sparse")
        session.finish_step()
        if session.step % every == 0:
            session.checkpoint(shared={"weights": sparse}, per_rank={"noise": noise})
        if rank == 0 and session.step % 100 == 0:
            print(f"step {session.step}", flush=True)
