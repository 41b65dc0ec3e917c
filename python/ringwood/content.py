"""The bytes of a tensor, and that this rank has all of them."""

import torch

from .errors import InvalidError


def plain(tensor):
    """The tensor, whose memory holds its values: PyTorch conjugates and negates by a mark where it can. A copy if it did."""
    return tensor.resolve_conj().resolve_neg()


def bytes_of(tensor):
    """In host memory, in order and in one dimension; the tensor's own where they lie there like that."""
    content = plain(tensor.detach()).cpu().contiguous()
    # A tensor of one element or none is contiguous with whatever strides, and view(-1) keeps them.
    return content.as_strided((content.numel(),), (1,)).view(torch.uint8)


def refuse_sparse(name, tensor):
    if tensor.layout is not torch.strided:
        raise InvalidError(f'"{name}" is a {tensor.layout} tensor, and only dense ones are exchanged and saved: make it dense, or '
                           "keep it as an attribute that is no buffer")


def refuse_part(name, tensor):
    """A DTensor, whose parts no call of Ringwood's knows."""
    if hasattr(tensor, "device_mesh"):
        raise InvalidError(f'"{name}" is a DTensor, of which each rank holds a part (FSDP2, tensor parallelism), and PyTorch '
                           'itself exchanges its gradients: train with the plain optimizer over init_process_group("ringwood"), as '
                           "docs/distributed.md says")
