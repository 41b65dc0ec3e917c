"""Momentum correction of the dense tensors: u = m*u + average, and u takes the average's place.

Sparse tensors send what has gathered in the residual, so a velocity made from what arrives would come late
and in lumps. Theirs therefore lives below the selection, in the library; dense tensors get the same rule
here, and the optimizer's own momentum is 0.
"""

import torch

from .errors import InvalidError


class Velocity:
    def __init__(self, momentum, session, named):
        """`named`: name -> parameter, of the session's dense and sparse tensors."""
        self._momentum = momentum
        sparse = session.sparse_names() if momentum else named
        self.of = {name: torch.zeros(parameter.shape, dtype=torch.float32)
                   for name, parameter in named.items() if name not in sparse}

    @torch.no_grad()
    def replace(self, averages):
        """`averages`: name -> float32 tensor for each of `of`, changed in place."""
        if not self.of:
            return
        velocities = list(self.of.values())
        gradients = [averages[name] for name in self.of]
        torch._foreach_mul_(velocities, self._momentum)
        torch._foreach_add_(velocities, gradients)
        torch._foreach_copy_(gradients, velocities)

    def load(self, saved):
        """Puts back what was read from `of`."""
        if saved and set(saved) != set(self.of):
            raise InvalidError("the saved velocity belongs to other dense tensors: "
                               f"{sorted(set(saved) ^ set(self.of))}")
        for name, values in saved.items():
            self.of[name].copy_(values)
