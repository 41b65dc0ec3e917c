"""The smallest trainer, with NumPy alone: fits 100,000 weights to a target that each rank sees through its own noise.

    ringwood run -np 4 -- python -m ringwood.examples.minimal
"""

import sys

import numpy as np

import ringwood

WEIGHTS, STEPS = 100_000, 200


def main():
    target = np.arange(WEIGHTS, dtype=np.float32) % 7
    weights = np.zeros(WEIGHTS, np.float32)
    gradient = np.zeros(WEIGHTS, np.float32)
    with ringwood.Session() as session:
        session.register("weights", gradient, route="sparse", density=0.1)
        noise = np.random.default_rng(session.rank)
        for _ in range(STEPS):
            session.begin_step()
            gradient[:] = weights - target + 0.1 * (noise.random(WEIGHTS, np.float32) - 0.5)
            session.ready("weights")
            result = session.finish_step()
            # At density 0.1 a weight waits about ten steps for its turn and then gets all ten gradients: the
            # rate is a tenth of what a dense step would stand.
            weights -= 0.03 * gradient
        error = float(np.mean((weights - target) ** 2))
        print(f"rank {session.rank} of {session.world}: mean squared error {error:.4f}, {result.sparse_bytes} bytes "
              f"a step instead of {result.dense_equivalent_bytes}")
    return 0 if error < 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
