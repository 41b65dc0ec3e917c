"""A rank of a job whose bits are compared: gradients of many sizes and magnitudes, drawn alike on every machine. Prints
a digest of all that it was given back, and of what stays in its residuals.

    ringwood run -np 2 -- python same_bits.py ROUTE WIRE
"""

import hashlib
import platform
import sys

import numpy as np

import ringwood

STEPS = 12
SIZES = [70000, 1000, 33, 1 << 17, 1, 4096]


def main(route, wire):
    gradients = {f"layer {number}": np.zeros(size, np.float32) for number, size in enumerate(SIZES)}
    digest = hashlib.sha256()
    with ringwood.Session(wire=wire) as session:
        for name, gradient in gradients.items():
            session.register(name, gradient, route=route, density=0.02)
        random = np.random.default_rng(session.rank)
        for _ in range(STEPS):
            session.begin_step()
            for name, gradient in gradients.items():
                magnitude = np.ldexp(np.float32(1), random.integers(-20, 20, gradient.size))
                gradient[:] = (random.random(gradient.size, np.float32) - np.float32(0.5)) * magnitude
                session.ready(name)
            session.finish_step()
            for gradient in gradients.values():
                digest.update(gradient.tobytes())
        if route == "sparse":
            for name in gradients:
                digest.update(session.residual(name).tobytes())
        print(f"rank {session.rank} on {platform.machine()}: {digest.hexdigest()}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
