"""Trains with rounds that the store's disk cannot hold between two checkpoints. argv: steps between these, steps."""

import sys

import numpy as np

import ringwood

every, steps = map(int, sys.argv[1:])

with ringwood.Session() as session:
    weights = np.zeros(3_000_000, np.float32)
    gradient = np.zeros(500_000, np.float32)
    session.register("gradient", gradient, route="dense")
    kept = 0
    while session.step < steps:
        session.begin_step(1)
        session.ready("gradient")
        session.finish_step()
        if session.step % every == 0:
            weights += session.step
            session.checkpoint(shared={"weights": weights})
            session.checkpoint_wait()
            kept += 1
    print(f"rank {session.rank} has {kept} checkpoints", flush=True)
