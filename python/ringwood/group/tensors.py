"""Tensors as a communicator takes them: contiguous, in host memory, and where only places matter as bytes."""

import torch

from ..content import bytes_of, plain
from ..errors import InvalidError
from ..library import ELEMENT_TYPES

BYTE = ELEMENT_TYPES["uint8"]
NOTHING = torch.empty(0, dtype=torch.uint8, device="cpu")


def in_memory(what, tensor):
    """The tensor, or a copy of it, contiguous in host memory."""
    if tensor.layout is not torch.strided:
        raise InvalidError(f"{what}: a {tensor.layout} tensor; the backend ringwood exchanges dense ones")
    values = plain(tensor)
    if not _has_memory(values):
        raise InvalidError(f"{what}: a {type(tensor).__name__} on {tensor.device} without memory of its own; of a DTensor give "
                           "to_local(), else a tensor that holds its values")
    if values.device.type == "cpu" and values.is_contiguous():
        return values
    return values.detach().cpu().contiguous()


def _has_memory(tensor):
    """Unlike tensors on meta, a DTensor and others that wrap tensors."""
    try:
        return tensor.numel() == 0 or tensor.data_ptr() != 0
    except RuntimeError:
        return False


def size_of(tensor):
    """In bytes."""
    return tensor.numel() * tensor.element_size()


def one_of(tensors):
    """A tensor: the call gives it alone or in a list of one."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise InvalidError(f"{len(tensors)} tensors in one call: the backend ringwood takes one, or the coalesced form")
    return tensors[0]


def together(tensors):
    """Their bytes, one after the other; of one tensor alone its own memory."""
    parts = [bytes_of(tensor) for tensor in tensors]
    return parts[0] if len(parts) == 1 else torch.cat(parts) if parts else NOTHING


@torch.no_grad()
def hand_out(gathered, sizes, parts):
    """Fills the parts from their bytes, which lie one after the other; `sizes`: in bytes."""
    for part, content in zip(parts, gathered.split(sizes)):
        if size_of(part):
            if content.storage_offset() % part.element_size():
                content = content.clone()  # view takes whole elements only
            part.copy_(content.view(part.dtype).view(part.shape))
