"""The exchange of differences: a round is a step of the session, and at most one is under way.

It begins when the differences of a fragment are there and ends with their average in the same place; in between the
ranks train on.
"""

import math

from ..interface.results import StepResult


class Exchange:
    """`ids`: of all registered differences; each is announced in every round, and exchanged when it is its turn."""

    def __init__(self, session, ids):
        self._session, self._ids = session, ids
        self.training = None  # the Elastic that is told of every round
        self.running = None   # the number of the round that is under way
        self.result = None    # of that round, where it was waited for before its time
        self.later = False    # whether what it brings is applied later than it is waited for; if the others' state came, there
        self.saves = False    # whether a checkpoint is made then; the same
        self._counts = [0.0, 0.0, 0.0, 0.0]

    def start(self, number, weight):
        """The differences leave, with the weight of this rank."""
        self._session.begin_step(weight)
        for identity in self._ids:
            self._session.ready(identity)
        self.running = number

    def come(self):
        """Of a rank that takes part, without samples, in the round that the others are in."""
        if not self.waiting:
            self._session.begin_step(0)
        self.running, self.result = self._session.step + 1, None

    @property
    def waiting(self):
        return self.running is not None and self.result is None

    def wait(self, later, saves=False):
        """Waits for the round that is under way, unless nothing is or that was done. Returns whether the state of the
        others came with it: then it is the round in which they are."""
        if not self.waiting:
            return False
        self.later, self.saves = later, saves
        result = self._session.finish_step() if self.training is None else self.training.finish_step()
        self.running, self.result = result.step, result
        return result.received

    def finish(self):
        """Ends the round that was waited for, and returns its result."""
        result = self.result
        self.running = self.result = None
        for i, count in enumerate((1, result.dense_bytes, result.sparse_bytes, result.dense_equivalent_bytes)):
            self._counts[i] += count
        return result

    def give_up(self):
        """Nobody waits for the round that is under way."""
        self.running = self.result = None

    def restore(self, number, skipped):
        """The round was complete when a checkpoint was made, and its average is there; it is to be finished."""
        self.running = number
        self.result = StepResult(number, skipped, total_weight=math.nan, dense_bytes=0, sparse_bytes=0,
                                 dense_equivalent_bytes=0)

    def traffic(self):
        """[rounds, dense bytes, sparse bytes, bytes if all rounds were dense and whole], sent by this rank so far."""
        return list(self._counts)
