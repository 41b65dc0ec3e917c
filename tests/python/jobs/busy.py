"""Beside a thread that wants the interpreter all the time: `ready` never gives it up (a call that did would
get it back after a switch interval only), `finish_step` does while it waits. No time is compared: the switch
interval is longer than the test."""

import sys
import threading
import time

import numpy as np

import ringwood

TENSORS = 100


class Counter(threading.Thread):
    """Counts whenever it gets the interpreter, and gives it up by itself."""

    def __init__(self):
        super().__init__(daemon=True)
        self.count = 0

    def run(self):
        while True:
            self.count += 1
            time.sleep(1e-5)


with ringwood.Session() as session:
    arrays = [np.zeros(10, np.float32) for _ in range(TENSORS)]
    ids = [session.register(f"tensor {i}", array) for i, array in enumerate(arrays)]
    session.agree()
    sys.setswitchinterval(600)
    counter = Counter()
    counter.start()
    turns = 0  # of the other thread while finish_step waited
    for step in range(10):
        for array in arrays:
            array[:] = session.rank
        session.begin_step(1)
        time.sleep(0.01)  # it gets to run, and waits for its next turn
        before = counter.count
        for identity in ids:
            session.ready(identity)
        assert counter.count == before, f"{counter.count - before} turns for another thread"
        session.finish_step()
        turns += counter.count - before
        assert all(array[0] == (session.world - 1) / 2 for array in arrays)
    assert turns > 0
