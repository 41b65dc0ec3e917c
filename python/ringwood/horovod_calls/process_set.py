"""Horovod's process sets: some of the ranks, each with a ProcessGroup of its own on the ranks that are in it."""

import datetime
from types import SimpleNamespace

from .. import job as _job
from ..errors import InvalidError
from ..process_group import ProcessGroup
from .compared import Compared

_FOREVER = datetime.timedelta(days=365)  # Horovod's calls have no deadline; who died is found without one
_NUMBERS_FROM = 0xFFFF0000  # of communicators; those of torch.distributed's groups are far below


class ProcessSet:
    """Some of the ranks. add_process_set, on all ranks in the same order, makes it ready."""

    def __init__(self, ranks=None):
        self.ranks, self.process_set_id = (None if ranks is None else sorted(ranks)), None

    def included(self):
        return self.ranks is None or _job.current().rank in self.ranks

    def size(self):
        return _job.current().world if self.ranks is None else len(self.ranks)

    def rank(self):
        """Its number within the set; -1 of a rank that is not in it."""
        mine = _job.current().rank
        return mine if self.ranks is None else self.ranks.index(mine) if mine in self.ranks else -1

    def __repr__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _Group(ProcessGroup):
    """`compared`: what its ranks ask for."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.compared = Compared(self)

    def _start(self, *arguments, about=0, **named):
        return super()._start(*arguments, about=about ^ self.compared.about, **named)

    def _work(self, *arguments, **named):
        work = super()._work(*arguments, **named)
        work.what = self.compared.taken()
        return work


global_process_set = ProcessSet()
global_process_set.process_set_id = 0
_groups = {}           # id -> the _Group of this rank's
_counts = {"sets": 0}  # that were added


def add_process_set(process_set):
    """`process_set`: one, or its ranks."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise InvalidError(f"{process_set} was added already")
    strangers = [rank for rank in process_set.ranks or () if not 0 <= rank < _job.current().world]
    if strangers:
        raise InvalidError(f"{process_set}: there are no ranks {strangers} among {_job.current().world}")
    _counts["sets"] += 1
    process_set.process_set_id = _counts["sets"]
    return process_set


def remove_process_set(process_set):
    """Whether it was one that can be removed."""
    if process_set.process_set_id in (None, 0):
        return False
    _groups.pop(process_set.process_set_id, None)
    process_set.process_set_id = None
    return True


def forget_process_sets():
    """The session is about to close."""
    _groups.clear()
    _counts.update(sets=0)


def group_of(process_set):
    """The ProcessGroup of a set that this rank is in; made at the first call."""
    identity = process_set.process_set_id
    if identity is None:
        raise InvalidError(f"{process_set} was not added: hvd.add_process_set(…) on all ranks")
    if not process_set.included():
        raise InvalidError(f"rank {_job.current().rank} is not in {process_set}")
    if identity not in _groups:
        session = _job.current().session
        ranks = list(range(session.world)) if process_set.ranks is None else process_set.ranks
        joined = SimpleNamespace(session=session, leave=lambda: None)
        _groups[identity] = _Group(joined, ranks, process_set.rank(), _FOREVER, None, _NUMBERS_FROM + identity)
    return _groups[identity]


def barrier(process_set=global_process_set):
    group_of(process_set).barrier().wait()
