"""The steps of the update log, done again through the optimizer.

Each logged step has the averages and a note: what else the optimizer used. Beside the learning rate and the other
numbers of its groups that is the GradScaler's state, and which parameters no rank had a gradient for.
"""

import json
import zlib

import torch

from .errors import CorruptError, RefusedError

PLAIN = (bool, int, float, str, type(None))


class Changes:
    """Finds gradients, and numbers of the optimizer's groups, that were changed between the commit and the update, such as by
    clipping or for a learning rate: a replay has to do the same. PyTorch counts what changes a tensor, except for the
    unscale_ of a GradScaler: so the values of one are kept. `scales`: the optimizer knows its GradScaler, and a replay
    does what that does."""

    def __init__(self, scales):
        self.any = False
        self.dropped = False  # the averages of the newest exchange were not used
        self._scales = scales
        self._averages, self._sample, self._numbers = [], (), None

    def averaged(self, parameters, groups):
        self._numbers = numbers_of(groups)
        self._averages = [(p, p.grad, p.grad._version) for p in parameters if p.grad is not None]
        if self._scales:
            return
        smallest = sorted((gradient for _, gradient, _ in self._averages), key=torch.Tensor.numel)
        self._sample = next(((each, each.clone()) for each in smallest if each.any()), ())

    def drop(self):
        """The averages are given up, without an update."""
        self.dropped = True
        self._averages, self._sample, self._numbers = [], (), None

    def used(self, groups):
        self.any |= any(p.grad is not gradient or gradient._version != version
                        for p, gradient, version in self._averages)
        if self._sample:
            gradient, before = self._sample
            self.any |= bool(((gradient != before) & ~before.isnan()).any())
        if self._numbers is not None:
            self.any |= self._numbers != numbers_of(groups)
        self._averages, self._sample, self._numbers = [], (), None


def note_of(groups, scaler, absent, changes):
    """Compressed JSON: hundreds of groups that are nearly alike have to fit into a note (64 KiB). `groups`: of the
    optimizer. `absent`: indices of parameters without a gradient anywhere. `changes`: whether earlier steps changed their
    averages, and the one before this dropped them."""
    note = {"groups": numbers_of(groups), "absent": absent, "changed": changes.any, "dropped": changes.dropped}
    if scaler is not None:
        note["scaler"] = scaler.state_dict()
    return zlib.compress(json.dumps(note).encode(), level=1)


def numbers_of(groups):
    """The learning rate and the other numbers of each of an optimizer's groups, as set_numbers takes them."""
    return [{key: _plain(value) for key, value in group.items() if key != "params" and _is_plain(value)} for group in groups]


def set_numbers(groups, kept):
    """`kept`: of as many groups, or of none."""
    if kept and len(kept) != len(groups):
        raise RefusedError(f"the optimizer has {len(groups)} parameter groups, and its numbers are those of {len(kept)}: make it "
                           "as the other ranks, or the steps before, have it")
    for group, numbers in zip(groups, kept):
        for key, value in numbers.items():
            if isinstance(value, dict):
                group[key].fill_(value["tensor"])
            elif isinstance(group.get(key), tuple):
                group[key] = tuple(value)
            else:
                group[key] = value


def _is_plain(value):
    if isinstance(value, (list, tuple)):
        return all(isinstance(each, PLAIN) for each in value)
    return isinstance(value, PLAIN) or (torch.is_tensor(value) and value.numel() == 1)


def _plain(value):
    return {"tensor": value.item()} if torch.is_tensor(value) else value


class Note:
    def __init__(self, content):
        try:
            self._kept = json.loads(zlib.decompress(content)) if content else {}
        except (ValueError, zlib.error) as failure:
            raise CorruptError(f"the note of a logged step cannot be read: {failure}") from failure
        self.absent = self._kept.get("absent", [])
        self.changed = self._kept.get("changed", False)
        self.dropped = self._kept.get("dropped", False)

    def set_groups(self, groups):
        """The numbers with which the step was done."""
        set_numbers(groups, self._kept.get("groups", []))

    def set_scaler(self, scaler):
        if scaler is not None and "scaler" in self._kept:
            scaler.load_state_dict(self._kept["scaler"])
