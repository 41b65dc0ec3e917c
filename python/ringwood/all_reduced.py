"""The gradients of a process's further optimizers (a GAN's discriminator, AdamW beside Muon), which step when they
like.

The session's table, which the plan groups and overlaps with backward, is the first one's. Each further one has its
gradients summed by one all-reduce when backward has made them all: dense, without overlap.
"""

import numpy as np
import torch

from .session import StepResult


class AllReduced:
    """Takes the session's part for `slots`: the calls that gradients.py, ddp.py and slot.py make of it."""

    def __init__(self, session, slots):
        self._session, self._slots = session, slots
        self._weight, self._step = 1.0, 0
        types = {slot.buffer.dtype for slot in slots}
        self._flat = torch.empty(sum(slot.buffer.numel() for slot in slots), device="cpu",
                                 dtype=types.pop() if len(types) == 1 else torch.float32)
        parts = self._flat.split([slot.buffer.numel() for slot in slots])
        self._parts = [part.view(slot.buffer.shape) for part, slot in zip(parts, slots)]
        self.allreduce = session.allreduce

    def route(self, name):
        return "ring"

    def begin_step(self, weight=1.0, pass_number=0):
        """Nobody votes on a sum, or on which pass it is of."""
        self._weight = float(weight)

    def ready(self, identity):
        """Its slot knows where it is."""

    def rebind(self, name, gradient):
        """Its slot knows where it is."""

    @torch.no_grad()
    def finish_step(self):
        total = self.allreduce(np.array([self._weight]))[0].item()
        if self._weight:
            torch._foreach_copy_(self._parts, [slot.buffer for slot in self._slots])
            self._flat.mul_(self._weight)
        else:
            self._flat.zero_()
        self.allreduce(self._flat)
        skipped = not (total > 0 and bool(self._flat.isfinite().all()))
        if not skipped:
            self._flat.div_(total)
            torch._foreach_copy_([slot.buffer for slot in self._slots], self._parts)
        self._step += 1
        world = self._session.world
        sent = 2 * (world - 1) * self._flat.nbytes // world
        return StepResult(self._step, skipped, total, sent, 0, sent)
