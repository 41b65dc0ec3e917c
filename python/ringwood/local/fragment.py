"""A fragment of the parameters in local steps: what all ranks agree on, and how far this one has gone from it.

Outer parameters, their optimizer's state and the differences lie in host memory as float32, flat, whatever device and
type the model has: they are touched once in many steps.
"""

import torch

from ..errors import InvalidError
from .outer import made

_PLACE = {"dtype": torch.float32, "device": "cpu"}


class Fragment:
    def __init__(self, named, outer, ahead=False):
        """`named`: [(name, parameter)]; `outer`: as in outer.py. `ahead`: whether this rank's parameters start from the
        outer ones less what it owes."""
        self.named = list(named)
        sizes = [parameter.numel() for _, parameter in self.named]
        self.outer = torch.zeros(sum(sizes), **_PLACE)       # the parameters that all ranks have
        self.difference = torch.zeros(sum(sizes), **_PLACE)  # start - own; after an exchange its average
        self._outer = self._views(self.outer, sizes)
        self._differences = self._views(self.difference, sizes)
        self._ahead = torch.zeros(sum(sizes), **_PLACE) if ahead else None  # how far this rank is ahead of the outer parameters
        self._owed = self._views(self._ahead, sizes) if ahead else []
        self.outer.grad = self.difference
        self.optimizer = made(outer, [self.outer])
        self.weight = 0.0  # samples trained on since the last start
        self.sent = 0.0    # samples of the round that is under way
        self.unit = 0.0    # samples of the newest round to which this rank brought any

    def _views(self, flat, sizes):
        return [part.view(parameter.shape) for part, (_, parameter) in zip(flat.split(sizes), self.named)]

    @property
    def gradients(self):
        """[(name, view of the difference)], for the session."""
        return [(name, view) for (name, _), view in zip(self.named, self._differences)]

    @torch.no_grad()
    def begin(self):
        """The outer parameters are what the model has now."""
        for view, (_, parameter) in zip(self._outer, self.named):
            view.copy_(parameter)

    @torch.no_grad()
    def differ(self):
        """Makes the difference from where the parameters started; whether it is finite. A model's type that is coarser than
        float32 has rounded that: what it cannot hold of the outer parameters is no training, and stays in them."""
        for index, (view, (_, parameter)) in enumerate(zip(self._differences, self.named)):
            view.copy_(parameter)
            torch.sub(self._start(index).to(parameter.dtype), view, out=view)
        return bool(self.difference.isfinite().all())

    def moves(self, names):
        """[(parameter, average difference, outer parameter)] of those in `names`, before `update`."""
        return [(parameter, difference, outer) for (name, parameter), difference, outer
                in zip(self.named, self._differences, self._outer) if name in names]

    @torch.no_grad()
    def update(self):
        """The outer optimizer takes the average that is in `difference` for a gradient."""
        self.optimizer.step()

    @torch.no_grad()
    def owe(self, residual):
        """Takes what this rank owes of each tensor, `residual(name)` in samples times difference, for how far it is ahead.
        Nothing without `ahead`, or before it brought samples."""
        if self._ahead is None or not self.unit:
            return
        for view, (name, _) in zip(self._owed, self.named):
            view.copy_(torch.from_numpy(residual(name)).view(view.shape)).div_(self.unit)

    @torch.no_grad()
    def give(self, mix=0.0):
        """The model's parameters become start + mix * (own - start), where start is outer, less what this rank owes if it
        is to be ahead by that."""
        for index, (_, parameter) in enumerate(self.named):
            start = self._start(index)
            if mix:
                own = parameter.to("cpu", torch.float32)
                parameter.copy_(torch.lerp(start, own, mix))
            else:
                parameter.copy_(start)

    def _start(self, index):
        """Where this rank's parameter starts from."""
        return self._outer[index] if self._ahead is None else self._outer[index] - self._owed[index]

    @torch.no_grad()
    def show_outer(self):
        """The model gets the outer parameters; what it had is the caller's to restore."""
        for view, (_, parameter) in zip(self._outer, self.named):
            parameter.copy_(view)

    def meet(self):
        """The model goes on from the outer parameters, like that of all other ranks. What this rank owes stays owed."""
        if self._ahead is not None:
            self._ahead.zero_()
        self.give()

    def state_dict(self):
        """Alike on all ranks."""
        return {"outer": self.outer, "optimizer": self.optimizer.state_dict()}

    @torch.no_grad()
    def load_state_dict(self, state):
        if state["outer"].shape != self.outer.shape:
            raise InvalidError(f"the saved fragment has {state['outer'].numel()} elements, here are "
                               f"{self.outer.numel()}: fragments= must be what it was")
        self.outer.copy_(state["outer"])
        self.optimizer.load_state_dict(state["optimizer"])


def cut(named, fragments):
    """[[(name, parameter)]]: `fragments` of them of about equal size, in the model's order; or one a module, where
    modules are listed."""
    if isinstance(fragments, int):
        return _evenly(named, fragments)
    parts, of = [[] for _ in fragments], {}
    for index, module in enumerate(fragments):
        for parameter in module.parameters():
            if of.setdefault(id(parameter), index) != index:
                raise InvalidError(f"fragments: modules {of[id(parameter)]} and {index} share a parameter: a fragment is "
                                   "exchanged as a whole, put them together")
    strange = [name for name, parameter in named if id(parameter) not in of]
    if strange:
        raise InvalidError(f"fragments: {len(strange)} parameter(s) are in no module of the list: "
                           f"{', '.join(strange[:6])}")
    for name, parameter in named:
        parts[of[id(parameter)]].append((name, parameter))
    if not all(parts):
        raise InvalidError(f"fragments: module {parts.index([])} has no parameter that is trained")
    return parts


def _evenly(named, count):
    if not 1 <= count <= len(named):
        raise InvalidError(f"fragments={count}: from 1 to the {len(named)} parameters that are trained")
    total = sum(parameter.numel() for _, parameter in named)
    parts, done = [[]], 0
    for index, (name, parameter) in enumerate(named):
        left, wanted = len(named) - index, count - len(parts)
        # The next part begins where the middle of the parameter lies behind its share; each gets one at least.
        behind = done + parameter.numel() / 2 > total * len(parts) / count
        if parts[-1] and wanted and (behind or left <= wanted):
            parts.append([])
        parts[-1].append((name, parameter))
        done += parameter.numel()
    return parts
