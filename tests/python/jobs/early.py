"""Dies before the first checkpoint, once."""

import os
import signal

import numpy as np

import ringwood

with ringwood.Session() as session:
    print(f"rank {session.rank} at step {session.step}", flush=True)
    session.allreduce(np.zeros(1))  # both have printed
    if os.environ["RINGWOOD_RESTART"] == "0" and session.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    session.broadcast(np.zeros(1), root=0)
