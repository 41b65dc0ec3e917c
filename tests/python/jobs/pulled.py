"""Trains in NumPy until the file argv[1].stop is there. Rank 0 writes to argv[1] a line for each step: its number,
and the digest of the weights. argv[2] says when a checkpoint is saved: due (as the session asks), never, or each so
many steps. argv[3]: elements of the large tensor."""

import hashlib
import os
import sys
import time

import numpy as np

import ringwood

file, when, size = sys.argv[1], sys.argv[2], int(sys.argv[3])

with ringwood.Session() as session, open(file, "a", buffering=1) as history:
    weights = {"large": np.zeros(size, np.float32), "scale": np.ones((2, 3), np.float32)}
    gradients = {name: np.zeros(value.size, np.float32) for name, value in weights.items()}
    for name, gradient in gradients.items():
        session.register(name, gradient, route="dense")
    stop = np.zeros(1, np.uint8)
    while not stop[0]:
        for name, gradient in gradients.items():
            gradient[:] = session.step % 97 + session.rank
            session.ready(name)
        result = session.finish_step()
        for name, gradient in gradients.items():
            weights[name] -= np.float32(0.01) * gradient.reshape(weights[name].shape)
        if session.rank == 0:
            digest = hashlib.sha256(weights["large"].tobytes() + weights["scale"].tobytes()).hexdigest()
            history.write(f"{session.step} {digest}\n")
        if result.checkpoint_due if when == "due" else when != "never" and session.step % int(when) == 0:
            session.checkpoint(shared={f"model/{name}": value for name, value in weights.items()}
                               | {"cursor": b"not of the model"})
        stop[0] = session.rank == 0 and os.path.exists(file + ".stop")
        session.broadcast(stop, root=0)
        time.sleep(0.01)
