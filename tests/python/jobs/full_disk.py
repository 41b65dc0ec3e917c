"""Trains while the store's disk is full for a time. argv: a folder on that disk."""

import os
import sys

import numpy as np

import ringwood

EVERY, FULL, STEPS = 2, range(4, 9), 14
ballast = os.path.join(sys.argv[1], "ballast")


def fill():
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            pass


with ringwood.Session() as session:
    weights = np.ones(400_000, np.float32)
    gradient = np.zeros(1000, np.float32)
    session.register("gradient", gradient, route="dense")
    failed = []
    while session.step < STEPS:
        session.begin_step(1)
        session.ready("gradient")
        session.finish_step()
        if session.step == FULL.start or session.step == FULL.stop:
            session.broadcast(np.zeros(1), root=0)  # nobody saves meanwhile
            if session.rank == 0:
                fill() if session.step == FULL.start else os.remove(ballast)
            session.broadcast(np.zeros(1), root=0)
        if session.step % EVERY == 0:
            weights += session.step
            session.checkpoint(shared={"weights": weights})
        if session.step in (FULL.start - 1, FULL.stop - 1):  # what is under way meets no change
            try:
                session.checkpoint_wait()
            except ringwood.RingwoodError as error:
                failed.append(session.step)
                assert error.exit_code == 75 and "checkpoint of step 8" in str(error), error
    assert failed == [FULL.stop - 1], failed
    session.checkpoint_wait()
    print(f"rank {session.rank} is at step {session.step}", flush=True)
