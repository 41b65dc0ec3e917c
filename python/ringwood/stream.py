"""The CUDA stream on which a session reads gradients and writes averages.

A tensor of the session has one stream for its whole life: the one that was current when its owner was made.
Gradients may come from another one (autograd runs a hook on the stream of the forward operation,
DistributedDataParallel on that of its reducer): events order the two, nobody waits on the host.
"""

import contextlib

import torch


class NoStream:
    """Of gradients in host memory: what the caller did is done."""
    device = "cpu"
    handle = None

    def follow(self, gradient=None):
        pass

    def work(self, gradient=None):
        return contextlib.nullcontext()


# The handle of a device's current stream: as PyTorch's generated code asks for it, without an object for each call.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream",
                      lambda index: torch.cuda.current_stream(index).cuda_stream)


class ExchangeStream:
    def __init__(self, device):
        self.device = device
        self._index = torch.device(device).index
        self._stream = torch.cuda.current_stream(device)
        self.handle = self._stream.cuda_stream

    def follow(self, gradient=None):
        """What the calling thread's stream holds comes before what the session does next. The memory of
        `gradient` is not given to another tensor before the session is through with it."""
        if _raw_stream(self._index) == self.handle:
            return
        current = torch.cuda.current_stream(self.device)
        if current != self._stream:
            self._stream.wait_stream(current)
            if gradient is not None:
                gradient.record_stream(self._stream)

    @contextlib.contextmanager
    def work(self, gradient=None):
        """Operations in it are the session's own: after what the calling thread's stream holds, before
        what it gets next."""
        current = torch.cuda.current_stream(self.device)
        self.follow(gradient)
        with torch.cuda.stream(self._stream):
            yield
        if current != self._stream:
            current.wait_stream(self._stream)
