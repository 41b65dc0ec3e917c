"""The parts of a checkpoint: what a training loop names beside its model and its optimizers."""

from .errors import InvalidError, RefusedError
from .sampler import Sampler


class Parts:
    """A checkpoint has exactly those that the program names which resumes from it."""

    def __init__(self, named):
        """`named`: name -> what has state_dict() and load_state_dict(), or a dict of numbers and texts."""
        for name, part in named.items():
            if not isinstance(part, dict) and not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise InvalidError(f"{name}= is a {type(part).__name__}: a part of a checkpoint has state_dict() and "
                                   "load_state_dict(), or is a dict")
        self._named = named

    def __iter__(self):
        """Their names."""
        return iter(self._named)

    @property
    def samplers(self):
        return [part for part in self._named.values() if isinstance(part, Sampler)]

    def states(self):
        """Name -> state."""
        return {name: dict(part) if isinstance(part, dict) else part.state_dict() for name, part in self._named.items()}

    def load(self, name, state):
        part = self._named[name]
        if isinstance(part, dict):
            part.clear()
            part.update(state)
        else:
            part.load_state_dict(state)

    def refuse_others(self, saved, what="the checkpoint"):
        """`saved`: the names of the parts that it has."""
        if set(saved) != set(self._named):
            raise InvalidError(f"{what} has {_listed(saved)}, and this program {_listed(self._named)}: name the same "
                               "parts")

    def refuse_unfollowed(self, replays, scaler):
        """Before a replay without after_step, which brings along samplers and the optimizer's scaler alone."""
        left = [name for name, part in self._named.items() if not isinstance(part, Sampler) and part is not scaler]
        if left:
            raise RefusedError(f"the update log has {replays} steps after the checkpoint, and {_listed(left)} would "
                               "not follow them: give restore(after_step=) what the loop does after step()")


def _listed(names):
    return ", ".join(sorted(names)) or "no parts"
