"""Two sessions in one process: the ranks of a world of two, each on a thread of its own."""

import threading

import numpy as np

import ringwood

results, failures = {}, []


def train(rank):
    try:
        with ringwood.Session(rank=rank, world=2) as session:
            gradient = np.zeros(1000, np.float32)
            session.register("weights", gradient, route="sparse", density=0.5)
            for _ in range(3):
                gradient[:] = rank
                session.ready("weights")
                session.finish_step()
            results[rank] = gradient
    except BaseException as error:
        failures.append(error)
        raise


threads = [threading.Thread(target=train, args=(rank,)) for rank in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
assert np.array_equal(results[0], results[1]) and results[0].any()
