"""A short training, the same under whatever started it: rank 0 prints the digest of its weights, in which every bit of
every step is. NumPy alone."""

import hashlib
import sys

import numpy as np

import ringwood

SIZES = {"dense": 3000, "sparse": 40_000}
STEPS = 12


def main():
    weights = {name: np.zeros(size, np.float32) for name, size in SIZES.items()}
    gradients = {name: np.zeros(size, np.float32) for name, size in SIZES.items()}
    with ringwood.Session() as session:
        for name, gradient in gradients.items():
            session.register(name, gradient, route=name, density=0.05)
        for step in range(STEPS):
            session.begin_step()
            for index, name in enumerate(SIZES):
                random = np.random.default_rng([session.rank, step, index])
                gradients[name][:] = 0.3 * weights[name] + random.random(SIZES[name], np.float32) - 0.5
                session.ready(name)
            session.finish_step()
            for name in SIZES:
                weights[name] -= np.float32(0.1) * gradients[name]
        digest = hashlib.sha256(b"".join(weights[name].tobytes() for name in SIZES)).hexdigest()
        mine = np.frombuffer(bytes.fromhex(digest), np.int64)
        if not (session.allreduce(mine.copy(), op="max") == session.allreduce(mine.copy(), op="min")).all():
            sys.exit("the ranks' weights differ")
        if session.rank == 0:
            print(f"digest of {session.world} ranks: {digest}", flush=True)


if __name__ == "__main__":
    main()
