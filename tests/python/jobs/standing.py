"""Rank 1 stands still in the third step, with one of two gradients ready; its heartbeats go on."""

import time

import numpy as np

import ringwood

with ringwood.Session() as session:
    gradient = np.ones(5000, np.float32)
    for name in ("first", "second"):
        session.register(name, gradient.copy())
    for step in range(6):
        session.begin_step(1)
        session.ready("first")
        if session.rank == 1 and step == 2:
            time.sleep(600)  # the job is over long before
        session.ready("second")
        session.finish_step()
