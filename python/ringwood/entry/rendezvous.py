"""How the process groups of a process come to their session: that of `ringwood run`, where RINGWOOD_COORDINATOR names
its server; otherwise (torchrun, mpirun, variables set by hand) that of a server of rank 0's, see entry.py.
"""

import contextlib
import datetime
import os
import time

from .. import job
from ..errors import InvalidError, RefusedError
from .entry import Entry, meet, prefix

_PARTING_SECONDS = 3        # for ranks that leave together; one that stays behind does not hold the others up for longer
_HEAD_START_SECONDS = 0.05  # of rank 0, which frees torch's store when the groups are gone: to ask the store whether it has
                            # gone makes PyTorch print a failure


class Joined:
    """The session that all process groups of the process share."""

    def __init__(self, session, store, servers, ours):
        self.session = session
        self._rank, self._others = session.rank, session.world - 1
        self._store, self._servers, self._ours = store, servers, ours
        self.groups = 0
        self._base = _numbered(session)

    def key(self, name):
        """A key of a store: torch's outlives the process groups, with the keys of those before."""
        return f"{prefix()}/{_joins[0]}/{name}"

    def number(self):
        """A number for a communicator that no other one of the session has. One member asks and tells the others."""
        return self._base + self._store.add(self.key("communicators"), 1)

    def enter(self):
        self.groups += 1
        return self

    def leave(self):
        self.groups -= 1
        if self.groups > 0:
            return
        _present.clear()
        if self._ours:
            job.stop()
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":  # a launcher's store stays
            self._part()
        self._close(self._others == 0)

    def _part(self):
        """Rank 0, whose process serves torch's store, leaves first: a rank that makes its groups again at once would
        still find the old store, and wait there for ever."""
        gone, all_gone = self.key("gone"), self.key("all gone")
        with contextlib.suppress(RuntimeError):  # somebody stays, or the store went with its process
            if self._rank != 0:
                self._store.add(gone, 1)
                self._store.wait([all_gone], datetime.timedelta(seconds=_PARTING_SECONDS))
                time.sleep(_HEAD_START_SECONDS)
                return
            deadline = time.monotonic() + _PARTING_SECONDS
            while self._store.add(gone, 0) < self._others and time.monotonic() < deadline:
                time.sleep(_HEAD_START_SECONDS / 10)
            self._close(self._store.add(gone, 0) == self._others)
            self._store.set(all_gone, "")
            self._store.get(all_gone)  # the server has it, and has told the others

    def _close(self, all_left):
        """Who has not left may be in calls of a group without rank 0: for them the server stays a moment longer."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close(linger=not all_left)


_present = []  # the Joined of this process, while it has groups
_joins = [0]   # how often it has joined, as often as the others
_NUMBERS = 1 << 16  # of communicators, for each time that a session is joined


def _numbered(session):
    """Where numbers begin. Groups are destroyed and made again on all ranks alike."""
    session.joined_groups = getattr(session, "joined_groups", -1) + 1
    return session.joined_groups * _NUMBERS


def join(store, rank, world, timeout, ranks):
    """For one more group. The first one is of all ranks, and opens the session or takes the one that stands."""
    if _present:
        return _present[0].enter()
    if ranks and ranks != list(range(world)):
        raise RefusedError('the backend ringwood has no session yet: init_process_group("ringwood") comes before '
                           'new_group(backend="ringwood")')
    _joins[0] += 1
    ours, servers, variables = not job.running(), [], {}
    if ours and not os.environ.get("RINGWOOD_COORDINATOR"):
        servers, variables = meet(store, f"{prefix()}/{_joins[0]}/server", rank, world)
        variables |= {"RANK": str(rank), "WORLD_SIZE": str(world)}
    with Entry(variables).environment():
        if ours:
            job.start({"join_timeout": timeout.total_seconds()} if variables else {})
        session = job.current().session
    if (session.rank, session.world) != (rank, world):
        raise InvalidError(f"this process is rank {rank} of {world} for torch.distributed and rank {session.rank} of "
                           f"{session.world} of the job: RANK and WORLD_SIZE are those of `ringwood run`")
    _present.append(Joined(session, store, servers, ours))
    return _present[0].enter()
