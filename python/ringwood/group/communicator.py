"""Collectives of some ranks of a session or all, in the background, over pointers: ringwood_communicator of the C
interface.

Calls come from any thread. All members start the same calls in the same order.
"""

import ctypes
from ctypes import byref, c_int, c_uint64, c_void_p

from ..library import CollectiveCall

ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL = range(1, 7)
_SIZE = ctypes.sizeof(CollectiveCall)


class Pending:
    """A call that was started. Input and output stay in place until `wait` has returned."""

    __slots__ = ("_library", "_work", "__weakref__")

    def __init__(self, library, work):
        self._library, self._work = library, work

    def done(self):
        """Whether it has ended, with or without an error. Never waits."""
        return bool(self._library.quick.ringwood_done(self._work))

    def wait(self, seconds):
        """Until the output is there; a DeadlineError after so many seconds. Any error ends the session."""
        self._library.wait("ringwood_wait", self._work, seconds)

    def __del__(self):
        self._library.quick.ringwood_work_free(self._work)


class Communicator:
    """`ranks`: of the session, in the members' order; `number`: 1 or more, the same on all members and of no other
    communicator of the session."""

    def __init__(self, session, ranks, number):
        self.ranks = list(ranks)
        self._library = session._library
        made = c_void_p()
        session._check_open()
        self._library.check(self._library.quick.ringwood_communicator_make(
            session._handle, (c_int * len(self.ranks))(*self.ranks), len(self.ranks), number, byref(made)))
        self._made = made

    def start(self, collective, kind, source, elements, target, outputs, op=0, root=0, shares=None, receives=None,
              about=0):
        """Starts a call on `elements` at the address `source` into `outputs` at `target`; returns a Pending. `kind` and
        `op`: numbers of library.ELEMENT_TYPES and OPERATIONS; `shares`, `receives`: elements by rank; `about`: a digest of
        what else tells the call from others, alike on all members."""
        call = CollectiveCall(_SIZE, collective, kind, op, root, source, elements, target, outputs)
        if shares is not None:
            call.shares = _numbers(shares)
        if receives is not None:
            call.receives = _numbers(receives)
        call.about = about
        work = c_void_p()
        code = self._library.quick.ringwood_start(self._made, byref(call), byref(work))
        if code:
            self._library.check(code)
        return Pending(self._library, work)

    def __del__(self):
        made = getattr(self, "_made", None)
        if made is not None:
            self._library.quick.ringwood_communicator_free(made)


def _numbers(values):
    return (c_uint64 * len(values))(*values)
