"""Ctrl-C while the main thread waits in the library, which Python's handlers of signals do not interrupt: they run when
the call returns. So a thread of its own hears of the signal (signal.set_wakeup_fd), and ends the wait. The call has a
second to end in order before: a step of a job whose ranks are all there is committed as ever.

Only where Ctrl-C raises KeyboardInterrupt, Python's default and that of notebooks: what another handler wants is not
known before it runs.
"""

import contextlib
import os
import signal
import threading
import time

_ORDERLY_SECONDS = 1
_LOOK_SECONDS = 0.02


class Interrupts:
    """Of one library: the calls that the main thread makes. Those of other threads are as they are without it."""

    def __init__(self, end_waits):
        """`end_waits`: called on another thread, ends what the process waits for."""
        self._end_waits = end_waits
        self._process = None  # that reads the pipe
        self._pipe = None     # where the signals' numbers are written to
        self._before = -1     # what had them before, and gets them too
        self._call = None     # the one that is under way, an object that tells it from others
        self._last = None     # the newest one
        self._ended = None    # the one whose wait was ended

    def run(self, function, arguments):
        """function(*arguments), whose wait Ctrl-C ends."""
        if threading.current_thread() is not threading.main_thread():
            return function(*arguments)
        if self._process != os.getpid():
            self._begin()
        try:
            self._before = signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
            self._call = self._last = object()
            return function(*arguments)
        finally:
            self._call = None
            signal.set_wakeup_fd(self._before)

    def ended(self):
        """Whether the wait of the last call was ended, which is the end of its session."""
        return self._ended is not None and self._ended is self._last

    def _begin(self):
        self._process = os.getpid()
        reader, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        threading.Thread(target=self._hear, args=(reader,), name="ringwood-interrupt", daemon=True).start()

    def _hear(self, reader):
        while numbers := os.read(reader, 64):
            call = self._call
            if self._before >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._before, numbers)
            if signal.SIGINT in numbers and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                self._end(call)

    def _end(self, call):
        deadline = time.monotonic() + _ORDERLY_SECONDS
        while time.monotonic() < deadline and self._call is call:
            time.sleep(_LOOK_SECONDS)
        if call is not None and self._call is call:
            self._ended = call
            self._end_waits()
