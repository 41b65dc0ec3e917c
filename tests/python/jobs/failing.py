"""Rank 1 comes to grief in the third step, in the way that argv names."""

import os
import signal
import sys

import numpy as np

import ringwood

with ringwood.Session() as session:
    gradient = np.ones(5000, np.float32)
    session.register("weights", gradient, route="sparse")
    for step in range(6):
        if session.rank == 1 and step == 3:
            if sys.argv[1] == "raise":
                raise ValueError("boom on purpose")
            os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[sys.argv[1]])
        session.begin_step(1)
        session.ready("weights")
        session.finish_step()
