"""When fragments of the parameters are exchanged while ranks train on their own: a schedule as a value.

    inner step     1    …    I        I+τ      2I        2I+τ      …
    round 1                  start    finish
    round 2                                    start     finish            I = every / fragments

Rounds are numbered from 1 as the session counts its steps. Fragments take turns, so each is exchanged once in `every`
inner steps; at most one round is under way.
"""

from dataclasses import dataclass

from ..errors import InvalidError


@dataclass(frozen=True)
class Start:
    """The differences of the round's fragment leave."""
    round: int


@dataclass(frozen=True)
class Finish:
    """Their average is waited for and applied."""
    round: int


@dataclass(frozen=True)
class Schedule:
    """`every`: inner steps from one exchange of a fragment to its next. `delay`: inner steps between the start of a round
    and its finish."""
    every: int
    fragments: int = 1
    delay: int = 0

    def __post_init__(self):
        for name, least in (("every", 1), ("fragments", 1), ("delay", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InvalidError(f"{name}={value!r}: a whole number from {least} on")
        if self.every % self.fragments:
            raise InvalidError(f"every={self.every} steps for fragments={self.fragments}: the fragments take turns, so "
                               "every must be a multiple of their number")
        if self.delay > self.interval:
            raise InvalidError(f"delay={self.delay}: one round is under way at a time, and with every={self.every} and "
                               f"fragments={self.fragments} the next begins after {self.interval} steps: at most that")

    @property
    def interval(self):
        """Inner steps from one round's start to the next one's."""
        return self.every // self.fragments

    def fragment(self, number):
        """Which one the round exchanges."""
        return (number - 1) % self.fragments

    def after(self, step, rounds=0):
        """What comes after the inner step `step`, in this order; steps count from 1, from where `rounds` rounds were
        complete."""
        started, finished = self._round_at(step, rounds), self._round_at(step - self.delay, rounds)
        start = [Start(started)] if started else []
        finish = [Finish(finished)] if finished else []
        return tuple(finish + start if self.delay else start + finish)

    def _round_at(self, step, rounds):
        count, rest = divmod(step, self.interval)
        return rounds + count if count > 0 and not rest else None
