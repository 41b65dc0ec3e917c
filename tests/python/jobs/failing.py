"""Rank 1 comes to grief after three steps, in the way that argv names."""

import os
import signal
import sys

import numpy as np

import ringwood

# Before a call, so many that it is known how long a step takes, also where one of them is held up: a warning waits for 5.
FIRST = 30 if sys.argv[1] == "call" else 3
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def train(session):
    gradient = np.ones(5000, np.float32)
    session.register("weights", gradient, route="sparse")
    for step in range(FIRST + 3):
        if session.rank == 1 and step == FIRST:
            if sys.argv[1] == "early":
                return
            if sys.argv[1] == "call":  # which the others do not make
                session.allreduce(np.ones(1, np.float32))
            if sys.argv[1] == "save":
                session.checkpoint({"weights": gradient}, {})
            if sys.argv[1] == "exit":
                sys.exit("gone on purpose")
            if sys.argv[1] in ("raise", "bare"):
                raise ValueError("boom on purpose")
            if sys.argv[1] == "long":
                raise ValueError("boom ö " + 9000 * "x" + " the end of nine thousand")
            if sys.argv[1] in SIGNALS:
                os.kill(os.getpid(), SIGNALS[sys.argv[1]])
        session.begin_step(1)
        session.ready("weights")
        session.finish_step()
    if sys.argv[1] == "last" and session.rank != 1:
        session.allreduce(np.ones(1, np.float32))


if sys.argv[1] == "bare":  # nothing around it: the end of the program tells the others
    train(ringwood.Session())
else:
    with ringwood.Session() as session:
        train(session)
