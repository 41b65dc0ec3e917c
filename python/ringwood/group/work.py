"""A collective of torch.distributed that was started: waited for, polled, or turned into a future.

An error is raised where somebody waits. A future carries it as an error of C++'s, because an exception that is set
on a future from Python reads as a result there: `then` makes one of the other.
"""

import threading
import time

import torch
from torch._C._distributed_c10d import Reducer, _create_work_from_future
from torch._C._distributed_c10d import Work as _Work

from ..errors import InvalidError, RingwoodError
from ..untraced import untraced


@untraced
class Work(_Work):
    """Its attributes have names that no later torch's Work gives to a property: 2.14 did so with `timeout`."""

    what = None  # words for the call, in an error that tells of different ones

    def __init__(self, watcher, pending, outputs, timeout, after=None):
        """`pending`: communicator.Pending, one or more; `outputs`: what result() and futures give; `timeout`: the process
        group's, in seconds; `after`: called once before they are given, in the thread that noticed the end."""
        super().__init__()
        self._watcher, self._pending, self._outputs, self._after = watcher, pending, outputs, after
        self._timeout, self._deadline = timeout, time.monotonic() + timeout
        self._over, self._error, self._future = False, None, None
        self._lock = threading.Lock()

    def wait(self, timeout=None):
        """`timeout`: a timedelta; None and 0: the process group's, from the start of the call."""
        if not self._over:
            given = timeout.total_seconds() if timeout is not None else 0
            self.finish(given if given > 0 else self.remaining())
        if self._error is not None:
            raise self._error
        return True

    def remaining(self):
        """Seconds until the process group's timeout."""
        return self._deadline - time.monotonic()

    def is_completed(self):
        if not self._over and all(pending.done() for pending in self._pending):
            self.finish(0)
        return self._over

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        return self._error

    def result(self):
        self.wait()
        return self._outputs

    def synchronize(self):
        self.wait()

    def source_rank(self):
        raise RuntimeError("source_rank: the backend ringwood receives from ranks that are named")

    def get_future(self):
        if self._future is None:
            base = torch.futures.Future()
            self._future = base.then(self._outcome)
            self._watcher.watch(self, base)
        return self._future

    def _outcome(self, _):
        self.wait()
        return self._outputs

    def finish(self, seconds):
        """Waits and keeps the error, if it ends with one. Any thread, several at once."""
        error = None
        try:
            for pending in self._pending:
                pending.wait(max(0.0, seconds))
        except InvalidError as failed:
            error = InvalidError(f"{failed}. What this rank calls is {self.what}") if self.what else failed
        except RingwoodError as failed:
            error = failed
        with self._lock:
            if self._over:
                return
            if error is None and self._after is not None:
                try:
                    with torch.inference_mode():  # outside of it inference tensors are not written to
                        self._after()
                except Exception as failed:  # an output that PyTorch does not write to: the caller's error, as any other
                    error = failed
            self._error, self._after = error, None
            self._over = True


def hand_over_futures():
    """DistributedDataParallel in join() gives PyTorch's reducer the work of an all-reduce, for backward to wait for. The
    reducer keeps no Python object, without which it waits for ever, and takes the future for complete when the work is: so
    it is given a work of C++ that is the future. Called once."""
    give = Reducer._set_forward_pass_work_handle

    def given(reducer, work, *settings):
        give(reducer, _create_work_from_future(work.get_future()) if isinstance(work, Work) else work, *settings)

    Reducer._set_forward_pass_work_handle = given
