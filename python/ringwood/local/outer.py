"""Outer optimizers of local steps: what is done with the average of the ranks' differences.

Any function that makes a PyTorch optimizer of a list of tensors is one, such as
`lambda tensors: torch.optim.Adam(tensors, lr=0.01)`. The tensors are flat, several parameters one after the other: only
optimizers that treat each element alone give what they give for the parameters.
"""

from dataclasses import dataclass

import torch

from ..errors import InvalidError
from ..wrapper import refuse_kind


@dataclass(frozen=True)
class Nesterov:
    """SGD with Nesterov's momentum, as of DiLoCo (Douillard et al. 2023)."""
    lr: float = 0.7
    momentum: float = 0.9

    def __post_init__(self):
        _check(self, least=0)
        if self.momentum == 0:
            raise InvalidError("Nesterov(momentum=0) is plain SGD: use OuterSGD(lr)")

    def __call__(self, tensors):
        return torch.optim.SGD(tensors, lr=self.lr, momentum=self.momentum, nesterov=True)


@dataclass(frozen=True)
class OuterSGD:
    """θ ← θ − lr · average, with heavy-ball momentum if any; lr=1 without momentum averages the ranks' parameters."""
    lr: float = 1.0
    momentum: float = 0.0

    def __post_init__(self):
        _check(self, least=0)

    def __call__(self, tensors):
        return torch.optim.SGD(tensors, lr=self.lr, momentum=self.momentum)


def made(outer, tensors):
    """The optimizer that `outer` makes of them; which optimizers cannot be one is found here, not in the first round."""
    optimizer = outer(tensors)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidError(f"outer= makes a {type(optimizer).__name__}: it has to make an optimizer of the tensors that it gets")
    try:
        refuse_kind(optimizer)
    except InvalidError as failure:
        raise InvalidError(f"outer=: {failure}") from None
    steps = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    if [id(tensor) for tensor in steps] != [id(tensor) for tensor in tensors]:
        raise InvalidError(f"outer= makes a {type(optimizer).__name__} of other tensors than those that it gets: these are the "
                           "outer parameters, and the model's follow them")
    return optimizer


def _check(outer, least):
    if not outer.lr > 0:
        raise InvalidError(f"lr={outer.lr} of the outer optimizer must be above 0")
    if not least <= outer.momentum < 1:
        raise InvalidError(f"momentum={outer.momentum} of the outer optimizer must lie in [0, 1)")
