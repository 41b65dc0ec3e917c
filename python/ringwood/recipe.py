"""What each gradient gets: route, density, momentum correction, clip norm. Without a word from the user the
result is DistributedDataParallel's: dense, and nobody's momentum but the optimizer's.

Sparse is asked for by a density or a route, for all or for a parameter group. The momentum of a sparse tensor
must live below the selection; SGD's own is therefore taken over (velocity.TakenOver), unless
momentum_correction says otherwise. Adam and its like get none: they normalise by the gradient's own moments. For the
same reason they lose by coarse codes, more than by large values that come late (docs/dense.md).
"""

from dataclasses import dataclass

import torch

from .errors import InvalidError
from .notice import warn
from .velocity import check_momentum

DENSITY = 0.01  # where sparse was asked for without a density
ADAM_REACH = 0.5  # of a block's largest values: where int4 ends


@dataclass(frozen=True)
class Recipe:
    route: str
    density: float
    momentum: float    # of the session, while the tensor is sparse
    clip_norm: float | None
    velocity: float    # of velocity.Velocity, while it is dense
    taken_over: bool   # the momentum is SGD's own

    @property
    def settings(self):
        """The tensor's settings for the session."""
        return self.route, self.density, self.momentum, self.clip_norm


def wire_reach_of(optimizer):
    return ADAM_REACH if any("betas" in group for group in optimizer.param_groups) else 1.0


def route_of(route, density):
    """With a density the planner may choose sparse."""
    return route or ("dense" if density is None else "auto")


def check_share(route, density):
    """Before anything is registered, so that a script which is told so at a prompt may try again."""
    if route not in (None, "auto", "dense", "sparse"):
        raise InvalidError(f'route="{route}": choose auto, dense or sparse')
    if density is not None and not 0 < density <= 1:
        raise InvalidError(f"density={density:g}: the share of a tensor's entries that is sent lies above 0 and is at most 1; "
                           "leave it out to send all of them")


def recipe_of(route, density, momentum_correction, clip_norm, optimizer=None, group=None):
    """None: nobody said. `group`: of `optimizer`, if it is known; what the group says comes first."""
    group = group or {}
    density = group.get("density", density)
    route = group.get("route", route)
    check_share(route, density)
    route = route_of(route, density)
    correction = group.get("momentum_correction", momentum_correction)
    clip_norm = group.get("clip_norm", clip_norm)
    density = DENSITY if density is None else density
    own = 0
    if correction is None and route != "dense":
        own = _own_momentum(optimizer, group)
        _say_what_moments_cost(optimizer, group, density)
    correction = correction or 0
    _check(optimizer, group, correction)
    return Recipe(route, density, own or correction, clip_norm, correction, bool(own))


def recipes_of(optimizer, trained, *general):
    """Name -> Recipe of the parameters in `trained`; `general`: settings for all groups, as recipe_of takes them."""
    own = {}
    for group in optimizer.param_groups:
        recipe = recipe_of(*general, optimizer, group)
        own.update((id(parameter), recipe) for parameter in group["params"])
    return {name: own[id(parameter)] for name, parameter in trained.items()}


def _own_momentum(optimizer, group):
    if not isinstance(optimizer, torch.optim.SGD) or not group.get("momentum"):
        return 0
    for name in ("nesterov", "dampening"):
        if group.get(name):
            raise InvalidError(
                f"the momentum of a sparse tensor lives in Ringwood, which knows no {name}: make the optimizer "
                f"without it, send these parameters dense, or pass momentum_correction=0 to leave momentum to "
                "the optimizer (it then sees the picked entries late and in lumps)")
    return group["momentum"]


def _say_what_moments_cost(optimizer, group, density):
    if "betas" in group:
        warn(f"{type(optimizer).__name__} loses accuracy above sparse averages (density={density:g}), which come late and "
             'in lumps. To save bytes with it: dense gradients of few bits, rw.init(wire="int4"), or rw.AverageAdamW in '
             'rw.LocalSteps(…, every=2, codec="int4"). momentum_correction=0 says that it is meant')


def _check(optimizer, group, correction):
    check_momentum(correction)
    if correction and group.get("momentum"):
        raise InvalidError(
            f"the optimizer has momentum={group['momentum']} and momentum_correction={correction} would "
            "apply it twice: leave momentum_correction out, and the optimizer's is used; or make the optimizer "
            "with momentum=0")
    if correction and "betas" in group:
        warn(f"{type(optimizer).__name__} averages gradients itself; momentum_correction={correction} comes on "
             "top and spoils it: leave momentum_correction out")
