"""A training loop whose ranks may die and come without stopping it.

    sampler = rw.Sampler(dataset, batch_size=256)
    rw.elastic(model, optimizer, sampler, scheduler=scheduler)

From then on the optimizer takes the weight of every step from the sampler and tells it of every commit. What makes up
the state of the training is named here once: a rank that joins later gets it from those that have it.
"""

from . import job
from .agreement import refuse_differences
from .errors import InvalidError, RefusedError
from .local.local_steps import LocalSteps
from .optimizer import DistributedOptimizer
from .parts import Parts
from .passes.forward import before_forward
from .replay import numbers_of, set_numbers
from .sampler import Sampler
from .state import state_items, state_of_items

SKELETON_STEP = 4096  # bytes; many times what the numbers of a training differ by


class Elastic:
    """`model`: its parameters and buffers. `optimizer`: a DistributedOptimizer, or LocalSteps, whose rounds are the
    sampler's steps; its state. `sampler`: a Sampler; where in the data the job is. Any further keyword names what else is
    alike on all ranks and changes with the steps, as in rw.Checkpoint: `scheduler`, `scaler`, an average of the weights.
    Random generators are each rank's own."""

    SKELETON = "elastic/skeleton"

    def __init__(self, model, optimizer, sampler, **parts):
        if not isinstance(optimizer, (DistributedOptimizer, LocalSteps)):
            raise InvalidError("elastic needs a ringwood.torch.DistributedOptimizer or LocalSteps, not "
                               f"{type(optimizer).__name__}")
        if not isinstance(sampler, Sampler):
            raise InvalidError(f"elastic needs a ringwood.torch.Sampler, not {type(sampler).__name__}: what other "
                               "samplers hand out is lost with the rank that it was handed to")
        self._model, self._optimizer, self._sampler, self._parts = model, optimizer, sampler, Parts(parts)
        self._session = optimizer.session
        # A scheduler makes the next learning rate of the present one, which LocalSteps keeps as the rank's own.
        self._scheduled = any(getattr(part, "optimizer", None) in (optimizer, optimizer.inner) for part in parts.values())
        refuse_differences(self._session, sampler.settings)
        optimizer.follow(self)
        job.current().elastic = True
        before_forward(model, self._loaded)
        self._session.state_on_request()

    def _loaded(self, model):
        if model.training and not self._session.closed:
            self._session.loaded()

    @property
    def weight(self):
        """This rank's samples in the next step; none before it has the state of the others."""
        return 0 if self._session.receiving else self._sampler.weight

    def finish_step(self):
        """Session.finish_step; gives the state to ranks that come, takes that of the others if this one came. The
        sampler is told."""
        result = None
        while result is None:
            try:
                result = self._session.finish_step()
            except RefusedError:
                if not self._session.state_wanted:
                    raise
                self._session.give_state(self.items())
        if result.received:
            self.load(self._session.received)
        self._sampler.committed(result)
        return result

    def replayed(self, result):
        """A step of the update log was done again."""
        self._sampler.committed(result)

    def leave(self):
        """The next step() is this rank's last: the others go on without it."""
        self._session.leave_after_step()

    def items(self):
        """Name -> bytes or tensor: the state between two steps, alike on all ranks in names and sizes."""
        tree = {"model": dict(self._model.state_dict()), "optimizer": self._optimizer.shared_state(),
                "sampler": self._sampler.state_dict(), "parts": self._parts.states(),
                "groups": numbers_of(self._optimizer.param_groups) if self._scheduled else []}
        items = state_items(tree, self.SKELETON)
        items[self.SKELETON] = _in_steps(items[self.SKELETON])
        return items

    def load(self, read):
        """`read`: name -> the bytes that another rank had under it."""
        state = state_of_items(read, self.SKELETON)
        if set(state) != {"model", "optimizer", "sampler", "parts", "groups"}:
            raise RefusedError("the state of the other ranks is not that of an elastic training")
        self._parts.refuse_others(state["parts"], "the other ranks' state")
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._sampler.load_state_dict(state["sampler"])
        for name in self._parts:
            self._parts.load(name, state["parts"][name])
        set_numbers(self._optimizer.param_groups, state["groups"])


def _in_steps(skeleton):
    """With white space behind it, so that its size is the same where its numbers have a few digits more or less: ranks that
    train on their own between exchanges may have counted other steps, or have another scale."""
    return skeleton.ljust(-(-len(skeleton) // SKELETON_STEP) * SKELETON_STEP)
