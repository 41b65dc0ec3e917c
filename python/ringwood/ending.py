"""How a program with open sessions ends.

An exception that nobody caught: Python prints the traceback, then every open session is closed with
its sentence, so that the other ranks stop and name this one. The exit code is 1, unless an error of
Ringwood's is it or lies below it: that decides (78 configuration, 75 restart me). Where another process
failed there is one line and no traceback: the one that matters is the other's. Without an exception the
sessions are closed in order. An error at Python's prompt ends nothing. A process of multiprocessing ends without exit
handlers if it was forked, and its exception is printed by multiprocessing, so that the exit code is 1 in any case; its
sessions are closed likewise.

SIGTERM, by which clusters say that a process has to end soon: the ranks save a checkpoint after the step in hand, wait
for it, and exit with 75. One asked rank is enough; the others hear it with the commit, and in an elastic job go on.
"""

import atexit
import contextlib
import io
import os
import signal
import sys
import threading
import weakref

import numpy as np

from .errors import AbortedError, JobEndedError, RingwoodError, UnavailableError, sentence_of

_open = weakref.WeakSet()
_of_multiprocessing = []  # the process in which its finalizer was made
_BEFORE_OTHERS = 100  # of multiprocessing's priorities: queues and managers, which a rank may have, are at most at 15
_installed = []  # the process in which the hooks were installed
_asks = []       # the session that SIGTERM asks to end, and the process in which it does
_heard = weakref.WeakSet()  # the sessions that it has asked


def watch(session):
    """Closes `session` when the program ends."""
    _open.add(session)
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing and multiprocessing.parent_process() and os.getpid() not in _of_multiprocessing:
        _of_multiprocessing[:] = [os.getpid()]
        multiprocessing.util.Finalize(None, _after_process, exitpriority=_BEFORE_OTHERS)


def install():
    """Called before the first session is opened: from then on an error of Ringwood's sets the exit code."""
    if not _installed:
        _installed.append(os.getpid())
        before = sys.excepthook
        sys.excepthook = lambda kind, error, trace: _after_exception(before, kind, error, trace)
        atexit.register(_close_all, None)


def forget(session):
    _open.discard(session)


def _after_process():
    """Called by multiprocessing when its process has returned, or while what it raised is on its way up."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):  # torch's spawn makes one of an exception
        error = None if error.code in (None, 0) else error.__context__ or error
    _close_all(None if error is None else sentence_of(error))


def _close_all(failure):
    for session in list(_open):
        try:
            session.close(failure)
        except RingwoodError as error:
            print(f"ringwood: closing the session: {error}", file=sys.stderr)


def _at_prompt(trace):
    """Whether the statement that failed was typed at Python's prompt, or one of the module `code`, whose own frames come
    first before Python 3.13. A mistake of syntax has no frames."""
    while trace is not None and trace.tb_frame.f_globals.get("__name__") in ("code", "codeop"):
        trace = trace.tb_next
    return hasattr(sys, "ps1") and (trace is None or trace.tb_frame.f_code.co_filename.startswith("<"))


def _after_exception(before, kind, error, trace):
    if _at_prompt(trace):
        before(kind, error, trace)
        return
    cause = _ringwoods(error)
    with _printing(ends=cause is not None):
        if kind in (UnavailableError, AbortedError, JobEndedError):
            print(f"{kind.__module__}.{kind.__name__}: {error}", file=sys.stderr)
        else:
            before(kind, error, trace)
        sys.stderr.flush()
        if os.getpid() in _installed:
            _close_all(sentence_of(error))
    if cause is not None:
        sys.exit(cause.exit_code)


def _printing(ends):
    """torch's hook, which init_process_group puts around ours, collects what is printed and prints it when ours returns.
    Where our exit code `ends` it instead, what we print goes past it."""
    collected = isinstance(sys.stderr, io.StringIO) and sys.__stderr__ is not None
    return contextlib.redirect_stderr(sys.__stderr__) if ends and collected else contextlib.nullcontext()


def _ringwoods(error):
    """The error of Ringwood's that `error` is, or was raised from."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, RingwoodError):
            return error
        seen.add(id(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


def listen(session):
    """From now on SIGTERM asks `session` to end, unless the script has a handler of its own. Outside the main thread
    Python has no signals."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, _asked):
        _asks[:] = session, os.getpid()
        signal.signal(signal.SIGTERM, _asked)


def _asked(number, _frame):
    session, process = _asks
    if os.getpid() != process or getattr(session, "closed", True):  # a data loader's worker; nothing to be saved
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    _heard.add(session)
    sys.stderr.write(f"I rank {session.slot}: asked to end: a checkpoint follows the step in hand\n")
    try:
        session.ask_to_end()
    except RingwoodError:  # the session is over, which its next call says
        pass


def _saved(session, save, wait):
    """What is said of the checkpoint."""
    try:
        if save():
            wait()
            return f"the checkpoint of step {session.step} is complete"
        return f"there is no checkpoint of step {session.step}"
    except AbortedError:
        raise
    except RingwoodError as error:
        return f"there is no checkpoint of step {session.step}: {error}"


def end_as_asked(session, save, wait, stop, elastic):
    """All ranks, after a step whose result is `ending`: saves and waits, stops the job, ends the program with 75. In an
    `elastic` job those end that were asked, and the others take over what they owe: one that is asked after the others
    have left saves again."""
    ends = None
    while ends is None:
        first, epoch = session.rank == 0, session.epoch
        try:
            said = _saved(session, save, wait)
            if session.epoch != epoch:
                continue  # a rank has died under it: all begin it anew
            leaves = not elastic or session in _heard
            if elastic:
                session.leave(leaves)
            else:
                session.allreduce(np.zeros(1, np.int32))  # no rank leaves while others wait for it
            ends = leaves
        except RingwoodError as error:
            if isinstance(error, AbortedError) and session.epoch != epoch:
                continue
            said = f"there is no checkpoint of step {session.step}: {error}"
            ends = not elastic or session in _heard
    if first:
        what = "ends as a rank was asked to" if ends else "goes on without ranks that were asked to end"
        sys.stderr.write(f"I rank {session.slot}: {what}: {said}\n")
    if not ends:
        return
    try:
        stop()
    except RingwoodError:  # another rank was faster
        pass
    raise SystemExit(UnavailableError.exit_code)
