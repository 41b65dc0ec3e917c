"""Completes the futures of calls in the order of the calls, on threads of its own.

The callbacks of a future run on the thread that completes it, and those of one future after those of another, so that
the calls which they start have one order, on all ranks alike. A callback may wait:

* for the future of a call that it started itself, as torch's powerSGD_hook does: the thread which runs callbacks has a
  Watcher for what they start;
* for anything else, such as a future of a later call: when it only waits, the next future no longer waits for it.
"""

import contextlib
import threading
import time
from queue import SimpleQueue

_LOOK_SECONDS = 0.1  # between two looks whether a callback goes on; two looks are needed, and few callbacks are looked at
_MOST_FREE = 2       # threads without a callback that are kept: one is next in line, one follows it

_here = threading.local()  # .runner: of this thread, if it is a Watcher's


def runner_here():
    """Of the callback that runs on this thread; or None."""
    return getattr(_here, "runner", None)


class Watcher:
    """One for each process group: calls of different groups end in any order. Any thread."""

    def __init__(self, name):
        self._name, self._queue = name, SimpleQueue()
        self._line = threading.Lock()  # held by the thread whose future is the next to be completed
        self._lock = threading.Lock()  # of _free
        self._free = 0                 # threads that run no callback
        self._ends = False             # a call is waited for; written by the thread in the line
        self._before = None            # the runner of the callbacks that began last, and their end
        self._over = threading.Event()
        self._over.set()

    def watch(self, work, future):
        """Completes `future`, a torch.futures.Future, when `work` has ended."""
        runner = runner_here()
        watcher = self if runner is None else runner.inner
        watcher._queue.put((work, future))
        watcher._provide(0)

    def stop(self):
        """The threads end when what is watched is completed. Not waited for: a callback may be the caller."""
        self._queue.put(None)

    def blocked(self):
        """Whether nothing goes on here that a callback could wait for."""
        return not self._ends and (self._over.is_set() or self._before.blocked())

    def _provide(self, taken):
        """One thread less is free, if `taken`; and one is, if need be a new one."""
        with self._lock:
            self._free -= taken
            if self._free > 0:
                return
            self._free += 1
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self):
        _here.runner = runner = Runner(self._name)
        try:
            while (entry := self._next(runner)) is not None:
                future, over = entry
                try:
                    future.set_result(None)
                finally:
                    over.set()
                    entry = future = None  # with their tensors
                with self._lock:
                    if self._free == _MOST_FREE:
                        return
                    self._free += 1
        finally:
            runner.stop()

    def _next(self, runner):
        """(the future, the event that says that its callbacks are through); None at the end."""
        with self._line:
            while (entry := self._queue.get()) is None:
                self._queue.put(None)  # for the other threads
                with self._lock:
                    if self._queue.qsize() == 1:
                        self._free -= 1
                        return None
            work, future = entry
            self._ends = True
            with contextlib.suppress(Exception):  # the work raises it again where its outcome is asked for
                work.finish(work.remaining())
            self._ends = False
            while not self._over.wait(_LOOK_SECONDS):
                if self._before.blocked():
                    break
            self._before, self._over = runner, threading.Event()
            self._provide(1)
            return future, self._over


class Runner:
    """What a Watcher knows of one of its threads."""

    def __init__(self, name):
        self.calls = 0  # that are waited for on the thread; written by it alone
        self._name, self._inner = name, None
        self._clock, self._used = time.pthread_getcpuclockid(threading.get_ident()), None

    @property
    def inner(self):
        """The Watcher of calls that callbacks on the thread start."""
        if self._inner is None:
            self._inner = Watcher(self._name + "+")
        return self._inner

    def stop(self):
        if self._inner is not None:
            self._inner.stop()

    def blocked(self):
        """Whether the thread has done nothing since the last look, and waits neither for a call nor for the future of
        one that it started."""
        try:
            used, before = time.clock_gettime_ns(self._clock), self._used
        except OSError:  # the thread has ended
            return True
        self._used = used
        return used == before and not self.calls and (self._inner is None or self._inner.blocked())
