"""Copies of CUDA tensors in host memory, made while the device works on.

Tensors that only the optimizer's step changes are copied on a stream of their own, beside the next forward; all
others on the stream on which they are changed, before anything that comes after. The memory is pinned and kept for the
next snapshot: one copy of what is on the device. Tensors in host memory stay what they are, as the session copies them.
"""

import torch


def on_device(value):
    return torch.is_tensor(value) and value.device.type == "cuda"


class Snapshot:
    def __init__(self):
        self._memory = {}   # name -> pinned tensor
        self._streams = {}  # device -> the one beside the current one
        self._copied = []   # an event for each stream in use
        self._read = None   # what is being copied stays alive

    def take(self, items, steady):
        """`items` with the copies in the place of CUDA tensors; they are whole after `wait`. `steady`: names of items
        that nobody changes until then."""
        taken, streams = {}, {}
        for name, value in items.items():
            if on_device(value):
                streams.setdefault((value.device, name in steady), []).append(name)
                value = self._place(name, value)
            taken[name] = value
        for (device, beside), names in streams.items():
            self._copy(device, beside, [(taken[name], items[name]) for name in names])
            self._read = (self._read, items)
        return taken

    @property
    def running(self):
        """Whether copies have begun that were not waited for."""
        return bool(self._copied)

    def wait(self):
        """Until all copies are whole."""
        while self._copied:
            self._copied.pop().synchronize()
        self._read = None

    def _place(self, name, value):
        place = self._memory.get(name)
        if place is None or place.shape != value.shape or place.dtype != value.dtype:
            place = self._memory[name] = torch.empty(value.shape, dtype=value.dtype, device="cpu", pin_memory=True)
        return place

    @torch.no_grad()
    def _copy(self, device, beside, pairs):
        current = torch.cuda.current_stream(device)
        stream = current
        if beside:
            if device not in self._streams:
                self._streams[device] = torch.cuda.Stream(device)
            stream = self._streams[device]
            stream.wait_stream(current)  # behind the step that was queued last
        with torch.cuda.stream(stream):
            for place, value in pairs:
                place.copy_(value.detach(), non_blocking=True)
        copied = torch.cuda.Event()
        copied.record(stream)
        self._copied.append(copied)
