"""The slot of a gradient that the session cannot read in place (see slot.py)."""

import torch


def real(tensor):
    """Complex numbers as two real ones each, in the same memory, or in a copy where that has the conjugate ones; others as
    they are."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


class Staged:
    """The buffer is host memory, or on the device of `stream`; its shape is that of `real(parameter)`."""

    def __init__(self, name, parameter, stream, bucketed, dtype=torch.float32):
        self.name = name
        self.parameter = parameter
        self._stream = stream
        self._bucketed = bucketed
        self._dtype = dtype
        self._gradient = None  # of this step, where it is a view of a bucket
        self.buffer = self._new_buffer(parameter)

    def _new_buffer(self, parameter):
        return torch.zeros(real(parameter).shape, dtype=self._dtype, device=self._stream.device)

    @torch.no_grad()
    def take(self, session, gradient, scale):
        self._keep(gradient)
        with self._stream.work(gradient):
            self.buffer.copy_(real(gradient))
            if scale != 1:
                self.buffer.div_(scale)
        return True

    def _keep(self, gradient):
        self._gradient = gradient if self._bucketed else None

    def let_go(self, session):
        """The session's memory is the buffer, which stays."""

    def hold(self, session):
        pass

    def clear(self, session):
        with self._stream.work():
            self.buffer.zero_()

    @torch.no_grad()
    def give(self, scale):
        if scale != 1:
            self.buffer.mul_(scale)
        target = self._target()
        if target.is_conj():
            target.copy_(torch.view_as_complex(self.buffer), non_blocking=True)
        else:
            real(target).copy_(self.buffer, non_blocking=True)

    def _target(self):
        if self._gradient is not None:
            return self._gradient
        if self.parameter.grad is None:
            self.parameter.grad = torch.zeros_like(self.parameter)
        return self.parameter.grad

    def skip(self):
        self._target().fill_(float("nan"))
