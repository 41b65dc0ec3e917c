"""The one job that a process of `ringwood.torch` belongs to: `init` reads the environment, or finds a server where it
names none (entry.py); the session is opened by the first call that needs the others, and closed once.
"""

import os
import sys

from . import ending
from .agreement import refuse_differences
from .all_reduced import AllReduced
from .entry.entry import enter
from .errors import RefusedError
from .library import load
from .passes.backward import Backward
from .placement import exchange_stream
from .session import Session
from .stream import NoStream


class Job:
    def __init__(self, options):
        ending.install()
        self._entry = enter(options)
        try:
            with self._entry.environment():
                chosen = load().options(options)
        except BaseException:
            self._entry.close()
            raise
        self.rank, self.world = chosen.rank, chosen.world
        self._owner = None  # of the session's tensors
        self._alone = False  # whether nothing else may be exchanged beside it
        self.backward = Backward()
        self.elastic = False  # ranks may die and come, see ringwood.elastic
        self.leaving = []   # called before the session is closed: hooks that would use it go
        self._options = options
        self._session = None

    @property
    def session(self):
        if self._session is None or self._session.closed:
            if self._session is not None:
                raise RefusedError("the session is closed: call ringwood.torch.init() again")
            with self._entry.environment():
                self._session = Session(**self._options)
            self._session.when_closed(self._entry.close)
            _warn_of_lost_steps(self._session)
        return self._session

    @property
    def opened(self):
        """Whether the session was opened; until then options can be set."""
        return self._session is not None

    def option(self, keyword):
        """What was given for it to init or set_option; or None."""
        return self._options.get(keyword)

    def claim(self, owner):
        """The session's tensors are `owner`'s, who registers them; before `register`."""
        if self._owner is not None:
            self._refuse_beside(owner)
        self._owner, self._alone = owner, True

    def _refuse_beside(self, owner):
        raise RefusedError(f"this process has a {self._owner} already, and {'it' if self._alone else owner} needs the "
                           "session's tensors for itself: one process trains with one of them")

    def set_option(self, keyword, value):
        self._options.setdefault(keyword, value)

    def exchange_stream(self, choice, parameters, settings):
        """Decides where the gradients of all parameters are exchanged; before `register`."""
        if self._owner is not None:
            return NoStream()
        if choice == "auto":
            choice = os.environ.get("RINGWOOD_DEVICE_TENSORS") or choice
        return exchange_stream(self.session, choice, parameters, settings)

    def register(self, owner, slots, settings, stream, wire_reach=1.0, **others):
        """What exchanges the gradients of `slots`, after the ranks agreed on it: for the first owner the session,
        by its plan; for a further one an AllReduced. The tensors' ids count from 0 in the order of `slots`;
        `settings`: name -> (route, density, momentum, clip norm). `owner` says to whom they belong; `others`
        are further settings, the same on every rank. `wire_reach`: of the session's tensors."""
        if self._owner is not None:
            return self._register_further(owner, slots, settings, others)
        self._owner = owner
        for index, slot in enumerate(slots):
            if self.session.register(slot.name, slot.buffer, *settings[slot.name], stream=stream.handle,
                                     wire_reach=wire_reach) != index:
                raise RefusedError(f"tensors were registered in the session before the {owner}")
        self.session.agree()  # compares names, shapes, routes, densities and momenta
        refuse_differences(self.session, others)
        return self.session

    def _register_further(self, owner, slots, settings, others):
        if self._alone:
            self._refuse_beside(owner)
        sparse = [name for name, (route, *_) in settings.items() if route != "dense"]
        table = [(slot.name, list(slot.buffer.shape)) for slot in slots]
        refuse_differences(self.session, {f"the {owner}": table, "its sparse tensors": sparse, **others})
        if sparse:
            raise RefusedError(f"this process has a {self._owner} already, and only the first one's tensors can be "
                               f"sparse: make this {owner} first, or without density and route")
        return AllReduced(self.session, slots)

    def close(self):
        while self.leaving:
            self.leaving.pop()()
        self.backward.leave()
        if self._session is not None:
            if not self._session.closed:
                _left[:] = [self._session.step]
            self._session.close()
        self._entry.close()


def _warn_of_lost_steps(session):
    """Of the session before in this process, whose state the script still has: this one's is that of a checkpoint."""
    begins = session.step + session.replays
    if session.resumed and session.rank == 0 and _left and begins < _left[0]:
        sys.stderr.write(f"W rank {session.slot}: the session before this one ended at step {_left[0]}, and this one begins with "
                         f"the checkpoint of step {begins}, and with what was held back of gradients then: no checkpoint has "
                         "the steps between. To keep them call checkpoint.save() and checkpoint.wait() before rw.shutdown(), and "
                         "restore() of a new rw.Checkpoint after rw.init()\n")


def local_rank():
    """The rank among the processes of this host, as torchrun, Open MPI and Slurm name it; mpirun may run within a job of Slurm."""
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"):
        if os.environ.get(name):
            return int(os.environ[name])
    return 0


_job = []   # the process's job, once init was called
_left = []  # the step of the newest session that was left, if one was


def start(options):
    if running():
        return _job[0]
    stop()  # of a job whose session was closed in another way the hooks are still there
    _job[:] = [Job(options)]
    return _job[0]


def running():
    """Whether the process has a job: init was called, and shutdown was not."""
    return bool(_job) and not (_job[0]._session and _job[0]._session.closed)


def current():
    if not _job:
        raise RefusedError("call ringwood.torch.init() first")
    return _job[0]


def stop():
    if _job:
        _job.pop().close()
