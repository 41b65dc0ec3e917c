"""Horovod's all-to-all."""

import torch

from ..errors import InvalidError
from .compared import number_of, numbered, refuse_differing, text_of
from .handle import handle_of, synchronize
from .process_set import global_process_set, group_of

_ROW = 10  # numbers that tell of a tensor


def _exchange_rows(group, tensor, name, mine):
    """How many rows come from each rank; the type and every other dimension are the same."""
    row = [number_of(tensor.dtype), tensor.dim(), *tensor.shape[1:]]
    if len(row) > _ROW:
        raise InvalidError(f"alltoall of a tensor of {tensor.dim()} dimensions: at most {_ROW - 1}")
    given = torch.zeros(group.size(), 1 + _ROW, dtype=torch.int64)
    given[:, 0], given[:, 1:1 + len(row)] = mine, torch.tensor(row)
    taken = torch.empty_like(given)
    group.compared.named(name, "alltoall")
    group.all_to_all_single(taken, given, [], []).wait()
    rows = [f"rows of {text_of(numbered(kind), shape[:max(0, dimensions - 1)])}"
            for _, kind, dimensions, *shape in taken.tolist()]
    refuse_differing(group, "what alltoall is given", rows)
    return taken[:, 0].contiguous()


@torch.no_grad()
def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """`splits`: rows for each rank; without them all get as many. Its result is the rows from all ranks, and with
    splits how many came from each."""
    group = group_of(process_set)
    size, rows = group.size(), tensor.shape[0] if tensor.dim() else 0
    if splits is None:
        if rows % size:
            raise InvalidError(f"alltoall of {rows} rows among {size} ranks: give splits")
        mine = torch.full((size,), rows // size, dtype=torch.int64)
    else:
        mine = torch.as_tensor(splits, dtype=torch.int64).cpu()
        if len(mine) != size or int(mine.sum()) != rows or int(mine.min()) < 0:
            raise InvalidError(f"alltoall: splits {mine.tolist()} for {size} ranks and {rows} rows")
    theirs = _exchange_rows(group, tensor, name, mine)
    output = tensor.new_empty((int(theirs.sum()), *tensor.shape[1:]))
    work = group.all_to_all_single(output, tensor, theirs.tolist(), mine.tolist())
    return handle_of([work], lambda: output if splits is None else (output, theirs.to(torch.int32)))


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):
        size, rows = process_set.size(), tensor.shape[0] if tensor.dim() else 0
        splits = [rows // size] * size if splits is None else splits
        output, received = synchronize(alltoall_async(tensor, splits, name, process_set))
        ctx.received, ctx.process_set = received, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, gradient, _):
        return synchronize(alltoall_async(gradient, ctx.received, None, ctx.process_set))[0], None, None, None


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    output, received = _AllToAll.apply(tensor, splits, name, process_set)
    return output if splits is None else (output, received)
