"""How a program with open sessions ends.

An exception that nobody caught: Python prints the traceback, then every open session is closed with
its sentence, so that the other ranks stop and name this one. The exit code is 1, unless an error of
Ringwood's is it or lies below it: that decides (78 configuration, 75 restart me). Where another process
failed there is one line and no traceback: the one that matters is the other's. Without an exception the
sessions are closed in order.
"""

import atexit
import os
import sys
import weakref

from .errors import AbortedError, RingwoodError, UnavailableError, sentence_of

_open = weakref.WeakSet()
_installed = []  # the process in which the hooks were installed


def watch(session):
    """Closes `session` when the program ends."""
    _open.add(session)


def install():
    """Called before the first session is opened: from then on an error of Ringwood's sets the exit code."""
    if not _installed:
        _installed.append(os.getpid())
        before = sys.excepthook
        sys.excepthook = lambda kind, error, trace: _after_exception(before, kind, error, trace)
        atexit.register(_close_all, None)


def forget(session):
    _open.discard(session)


def _close_all(failure):
    for session in list(_open):
        try:
            session.close(failure)
        except RingwoodError as error:
            print(f"ringwood: closing the session: {error}", file=sys.stderr)


def _after_exception(before, kind, error, trace):
    if kind in (UnavailableError, AbortedError):
        print(f"{kind.__module__}.{kind.__name__}: {error}", file=sys.stderr)
    else:
        before(kind, error, trace)
    sys.stderr.flush()
    if os.getpid() in _installed:
        _close_all(sentence_of(error))
    cause = _ringwoods(error)
    if cause is not None:
        sys.exit(cause.exit_code)


def _ringwoods(error):
    """The error of Ringwood's that `error` is, or was raised from."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, RingwoodError):
            return error
        seen.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None
