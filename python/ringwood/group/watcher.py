"""Completes the futures of calls in the order of the calls, on threads of its own.

The callbacks of a future run on the thread that completes it, and those of one future after those of another, so that
the calls which they start have one order, on all ranks alike. A callback may wait for the future of a call that it
started itself, as torch's powerSGD_hook does: each of the threads has a Watcher for what its callbacks start. One that
waits for the future of a later call waits in vain, as that comes after it: when the next future has waited for it as
long as the process group's timeout, it waits no more. All that come after keep their order.
"""

import contextlib
import threading
from queue import SimpleQueue

_MOST_FREE = 2  # threads without a callback that are kept: one is next in line, one follows it

_here = threading.local()  # .watcher: on a Watcher's thread, that of the calls which callbacks start


class Watcher:
    """One for each process group: calls of different groups end in any order. Any thread."""

    def __init__(self, name):
        self._name, self._queue = name, SimpleQueue()
        self._line = threading.Lock()  # held by the thread whose future is the next to be completed
        self._lock = threading.Lock()  # of _free
        self._free = 0                 # threads that run no callback
        self._over = threading.Event()  # the callbacks that began last are through
        self._over.set()

    def watch(self, work, future):
        """Completes `future`, a torch.futures.Future, when `work` has ended."""
        watcher = getattr(_here, "watcher", self)
        watcher._queue.put((work, future))
        watcher._provide(0)

    def stop(self):
        """The threads end when what is watched is completed. Not waited for: a callback may be the caller."""
        self._queue.put(None)

    def _provide(self, taken):
        """One thread less is free, if `taken`; and one is, if need be a new one."""
        with self._lock:
            self._free -= taken
            if self._free > 0:
                return
            self._free += 1
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _run(self):
        _here.watcher = Watcher(self._name + "+")
        try:
            while (entry := self._next()) is not None:
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
            _here.watcher.stop()

    def _next(self):
        """(the future, the event that says that its callbacks are through); None at the end."""
        with self._line:
            while (entry := self._queue.get()) is None:
                self._queue.put(None)  # for the other threads
                with self._lock:
                    if self._queue.qsize() == 1:
                        self._free -= 1
                        return None
            work, future = entry
            with contextlib.suppress(Exception):  # the work raises it again where its outcome is asked for
                work.finish(work.remaining())
            self._over.wait(work._timeout)
            self._over = threading.Event()
            self._provide(1)
            return future, self._over
