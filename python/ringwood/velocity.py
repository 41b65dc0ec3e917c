"""Momentum correction of the dense tensors: u = m*u + average, and u takes the average's place.

Sparse tensors send what has gathered in the residual, so a velocity made from what arrives would come late
and in lumps. Theirs therefore lives below the selection, in the library; dense tensors get the same rule
here, and the optimizer's own momentum is 0. A tensor whose route a new plan changes starts with the
velocity 0.

TakenOver is for an SGD that has its own momentum: dense tensors keep it, exactly, and of sparse ones it is
taken away.
"""

import torch

from .errors import InvalidError


def check_momentum(momentum_correction):
    if not 0 <= momentum_correction < 1:
        raise InvalidError(f"momentum_correction={momentum_correction} must lie in [0, 1)")


class Velocity:
    def __init__(self, session, slots, momenta):
        """`momenta`: name -> m, of the tensors that `slots` names."""
        self._session = session
        self._momenta = momenta
        self._slots = [slot for slot in slots if momenta[slot.name]]
        self.of = {}  # name -> u, of the tensors that the present plan sends densely
        self._follow_plan()

    def _follow_plan(self):
        dense = [slot for slot in self._slots if self._session.route(slot.name) != "tree"]
        if len(dense) != len(self.of) or any(slot.name not in self.of for slot in dense):
            self.of = {slot.name: self.of.get(slot.name, torch.zeros_like(slot.buffer)) for slot in dense}

    @torch.no_grad()
    def replace(self):
        """After a commit: the velocities take the averages' place in the slots."""
        self._follow_plan()
        if not self.of:
            return
        velocities = list(self.of.values())
        averages = [slot.buffer for slot in self._slots if slot.name in self.of]
        torch._foreach_mul_(velocities, [self._momenta[name] for name in self.of])
        torch._foreach_add_(velocities, averages)
        torch._foreach_copy_(averages, velocities)

    def load(self, saved):
        """Restores the state read from `of`. Tensors that are sparse now have their velocity in the library."""
        strange = sorted(set(saved) - set(self._momenta))
        if strange:
            raise InvalidError(f"the saved velocity belongs to other tensors: {', '.join(strange[:10])}")
        for name, values in saved.items():
            if name in self.of:
                self.of[name].copy_(values)


class TakenOver:
    """SGD's momentum of tensors that are sparse, whose velocity is in the library: what they bring must not
    enter the optimizer's buffer. Weight decay must, since nobody else gives it momentum."""

    def __init__(self, session, optimizer, parameters):
        """`parameters`: name -> parameter, of those that the library corrects while they are sparse."""
        self._session, self._optimizer, self._parameters = session, optimizer, parameters
        maximized = {id(parameter) for group in optimizer.param_groups if group.get("maximize")
                     for parameter in group["params"]}
        self._signs = {name: -1 if id(parameter) in maximized else 1 for name, parameter in parameters.items()}

    @torch.no_grad()
    def after_step(self):
        """SGD's buffer is m * buffer + gradient + decay now; the next step's is made without the gradient."""
        for name, parameter in self._parameters.items():
            if parameter.grad is None or self._session.route(name) != "tree":
                continue
            buffer = self._optimizer.state[parameter].get("momentum_buffer")
            if buffer is not None:
                buffer.sub_(parameter.grad, alpha=self._signs[name])
