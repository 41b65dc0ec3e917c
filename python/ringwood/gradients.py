"""Which gradients of the running step are complete.

The hooks run on autograd's thread, once a parameter and pass; they only enqueue. Where the session finds
a gradient is its slot's business.
"""

import contextlib

import torch

from .device import Arrivals
from .errors import RefusedError
from .slot import settle


class Gradients:
    """`slots`: registered in the session, in this order, and exchanged on `stream`."""

    def __init__(self, owner, slots, stream, passes_per_step, scaler):
        self.slots = slots
        self._stream = stream
        self.quiet = False  # inside no_sync
        self._owner = owner
        self._session = owner.session
        self._arrivals = Arrivals(owner.session)
        self._scaler = scaler
        self._scale = 1.0  # the factor in this step's gradients
        self._passes_per_step = passes_per_step
        self._passes = [0] * len(slots)
        self._touched = [False] * len(slots)  # by any pass, those inside no_sync included
        self._running = False  # between the first ready and the commit
        for index, slot in enumerate(slots):
            slot.parameter.register_post_accumulate_grad_hook(self._hook(index, slot))

    def _hook(self, index, slot):
        session, passes, touched = self._session, self._passes, self._touched

        def gradient_accumulated(parameter):
            touched[index] = True
            if self.quiet:
                return
            passes[index] += 1
            if passes[index] != self._passes_per_step:
                self._refuse_excess(index)
                return
            if not self._running:
                self._begin()
            if slot.take(session, _dense(parameter), self._scale):
                session.ready(index)
            else:
                self._arrivals.add(index, slot)

        return gradient_accumulated

    def _refuse_excess(self, index):
        if self._passes[index] > self._passes_per_step:
            raise RefusedError(
                f'"{self.slots[index].name}" got a gradient for the {self._passes[index]}th time in this '
                "step: call step() after every backward, or say backward_passes_per_step")

    def _begin(self):
        self._owner.end_step()
        self._session.begin_step(self._owner.weight)
        self._running = True
        if self._scaler is not None:
            self._scale = self._scaler.get_scale()

    def refuse_if_running(self, what):
        if self._running:
            raise RefusedError(f"{what} between backward and step(): the gradients are on their way")

    def forget_passes(self):
        """The gradients gathered so far were zeroed."""
        self._passes[:] = [0] * len(self.slots)
        self._touched[:] = [False] * len(self.slots)

    def refuse_strangers(self, parameters):
        """`parameters`: what the optimizer updates now. One that was not there at the start has no hook
        and would drift away from the other ranks in silence."""
        known = {id(slot.parameter) for slot in self.slots}
        strangers = sum(id(parameter) not in known for parameter in parameters if parameter.requires_grad)
        if strangers:
            raise RefusedError(f"{strangers} parameter(s) of the optimizer were added or replaced since the "
                               "ranks agreed on the plan: make them before the DistributedOptimizer")

    def complete(self, weight):
        """Announces what the hooks did not. Returns the indices that no rank has a gradient for, if the
        policy is to skip them."""
        present = [touched and slot.parameter.grad is not None
                   for touched, slot in zip(self._touched, self.slots)]
        if weight and not all(present):
            self._refuse_missing([i for i, there in enumerate(present) if not there])
        if not self._running:
            self._begin()
        self._arrivals.wait()
        for index, slot in enumerate(self.slots):
            if self._passes[index] >= self._passes_per_step:
                continue  # its hook announced it
            if not present[index]:
                slot.clear()
            elif not slot.take(self._session, _dense(slot.parameter), self._scale):
                self._arrivals.add(index, slot)
                continue
            self._session.ready(index)
        self._arrivals.wait()
        if self._owner.missing != "skip":
            return []
        anywhere = torch.tensor(present, dtype=torch.uint8)
        self._session.allreduce(anywhere, op="max")
        return [i for i in range(len(self.slots)) if not anywhere[i]]

    def _refuse_missing(self, missing):
        if len(missing) == len(self.slots):
            raise RefusedError("step() without backward(): no parameter has a gradient (a rank without "
                               "samples sets optimizer.weight = 0)")
        if self._owner.missing == "error":
            names = ", ".join(self.slots[i].name for i in missing[:10])
            raise RefusedError(f"{len(missing)} parameter(s) got no gradient in this step: {names}"
                               f"{', …' if len(missing) > 10 else ''}. Pass missing=\"zero\" or \"skip\" "
                               "to DistributedOptimizer if that is intended")

    def finished(self, skipped, velocity):
        """The commit is through: every average, or its velocity, is its parameter's gradient."""
        self._running = False
        self.forget_passes()
        settle(self.slots, self._stream, velocity, skipped, self._scale)

    @contextlib.contextmanager
    def hidden(self, indices):
        """Without these gradients, so that the optimizer leaves their parameters alone."""
        held = [(self.slots[i].parameter, self.slots[i].parameter.grad) for i in indices]
        for parameter, _ in held:
            parameter.grad = None
        yield
        for parameter, gradient in held:
            parameter.grad = gradient


def _dense(parameter):
    """The gradient; an Embedding(sparse=True) makes a sparse one, which is made dense."""
    if parameter.grad.is_sparse:
        parameter.grad = parameter.grad.to_dense()
    return parameter.grad
