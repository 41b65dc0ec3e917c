"""Gradients of CUDA tensors, staged through pinned memory.

Backward is far ahead of the device when a hook runs. The copy to the host is therefore queued on a stream
of its own behind the gradient's kernels, and the session hears of it when its event has passed: whenever
a later hook looks, and at the latest when all hooks have run, while the device still works on the rest of
backward: then the copies are waited for in order.
"""

import collections

import torch

from .staged import Staged, real


class StagedFromDevice(Staged):
    def _new_buffer(self, parameter):
        self._stream = torch.cuda.Stream(parameter.device)  # from PyTorch's pool of 32
        self._copied = torch.cuda.Event()   # the gradient is in the buffer
        self._given = torch.cuda.Event()    # the average is back on the device
        return torch.zeros(real(parameter).shape, dtype=self._dtype, device="cpu", pin_memory=True)

    @torch.no_grad()
    def take(self, session, gradient, scale):
        self._keep(gradient)
        self._stream.wait_stream(torch.cuda.current_stream(gradient.device))
        self._stream.wait_event(self._given)  # of the step before: the buffer is free
        with torch.cuda.stream(self._stream):
            values = real(gradient).to(self._dtype, memory_format=torch.contiguous_format)
            if scale != 1:
                values = values / scale
            self.buffer.copy_(values, non_blocking=True)
            self._copied.record(self._stream)
        gradient.record_stream(self._stream)
        return False

    def arrived(self):
        return self._copied.query()

    def wait(self):
        self._copied.synchronize()

    def clear(self, session):
        self._given.synchronize()
        super().clear(session)

    def give(self, scale):
        super().give(scale)
        self._given.record(torch.cuda.current_stream(self.parameter.device))


class Arrivals:
    """Gradients being copied to memory that the session can read, in the order in which they started."""

    def __init__(self, session):
        self._session = session
        self._underway = collections.deque()  # (id, slot); at most one a tensor

    def add(self, identity, slot):
        self._underway.append((identity, slot))
        while self._underway and self._underway[0][1].arrived():
            self._announce()

    def wait(self):
        """Returns when all are announced."""
        while self._underway:
            self._underway[0][1].wait()
            self._announce()

    def _announce(self):
        self._session.ready(self._underway.popleft()[0])
