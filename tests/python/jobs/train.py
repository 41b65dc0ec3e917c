"""A training in NumPy, one sparse and one dense tensor, momentum below the selection. argv: FILE for the
digests, then who dies in step 10 if nothing was resumed: nobody, one, all."""

import hashlib
import json
import os
import signal
import sys

import numpy as np

import ringwood

STEPS, EVERY = 16, 4
SIZES = {"large": int(os.environ.get("TRAIN_LARGE", 20_000)), "small": 50}

with ringwood.Session(momentum=0.7) as session:
    random = np.random.default_rng(session.rank)
    weights = {name: np.ones(size, np.float32) for name, size in SIZES.items()}
    gradients = {name: np.zeros(size, np.float32) for name, size in SIZES.items()}
    for name, route in (("large", "sparse"), ("small", "dense")):
        session.register(name, gradients[name], route=route, density=0.01)
    session.agree()
    if session.resumed:
        print("resumed", flush=True)
        for name in SIZES:
            weights[name][:] = np.frombuffer(session.restore(name), np.float32)
        random.bit_generator.state = json.loads(session.restore("random", "per_rank"))
    while session.step < STEPS:
        if session.step == 10 and not session.resumed:
            if sys.argv[2] == "all" or (sys.argv[2] == "one" and session.rank == 1):
                session.checkpoint_wait()
                os.kill(os.getpid(), signal.SIGKILL)
        session.begin_step(1 + session.rank)
        for name, gradient in gradients.items():
            gradient[:] = random.standard_normal(gradient.size, np.float32) + 0.1 * weights[name]
            session.ready(name)
        session.finish_step()
        for name, gradient in gradients.items():
            weights[name] -= np.float32(0.05) * gradient
        if session.step % EVERY == 0:
            own = json.dumps(random.bit_generator.state).encode()
            session.checkpoint(shared=weights, own={"random": own})  # the former name of per_rank
    digest = hashlib.sha256(weights["large"].tobytes() + weights["small"].tobytes()).digest()
    residual = hashlib.sha256(session.residual("large").tobytes()).digest()
    mine = np.frombuffer(digest + residual, np.uint8)
    found = [session.broadcast(mine.copy(), root=rank).tobytes() for rank in range(session.world)]
    assert len({each[:32] for each in found}) == 1, "the ranks' weights differ"
    if session.rank == 0:
        with open(sys.argv[1], "w") as file:
            file.write("\n".join(each.hex() for each in found))
