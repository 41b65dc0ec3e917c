"""Trains a sparse and a dense tensor in NumPy until argv[2] steps are done, or with 0 until the file argv[1].stop is
there. Rank 0 writes to argv[1] a line for each step: its number, and the digest of the weights."""

import hashlib
import os
import sys
import time

import numpy as np

import ringwood

file, steps = sys.argv[1], int(sys.argv[2])

with ringwood.Session() as session, open(file, "a", buffering=1) as history:
    weights = {"large": np.ones(20_000, np.float32), "small": np.ones(50, np.float32)}
    gradients = {name: np.zeros(value.size, np.float32) for name, value in weights.items()}
    for name, route in (("large", "sparse"), ("small", "dense")):
        session.register(name, gradients[name], route=route, density=0.01)
    session.agree()
    if session.resumed:
        for name in weights:
            weights[name][:] = np.frombuffer(session.restore(name), np.float32)
    stop = np.zeros(1, np.uint8)
    while not stop[0]:
        random = np.random.default_rng([session.step, session.rank])
        for name, gradient in gradients.items():
            gradient[:] = random.standard_normal(gradient.size, np.float32) + 0.1 * weights[name]
            session.ready(name)
        session.finish_step()
        for name, gradient in gradients.items():
            weights[name] -= np.float32(0.05) * gradient
        if session.rank == 0:
            digest = hashlib.sha256(weights["large"].tobytes() + weights["small"].tobytes()).hexdigest()
            history.write(f"{session.step} {digest}\n")
        if session.step in (2, 20, 200, 2000):
            session.checkpoint(shared=weights)
        stop[0] = session.rank == 0 and (session.step >= steps if steps else os.path.exists(file + ".stop"))
        session.broadcast(stop, root=0)
        time.sleep(0.01)  # as a training does other things, too
