"""Horovod's all-gather, of tensors whose first dimensions may differ."""

import torch

from ..errors import InvalidError
from .all_reduce import allreduce_async
from .compared import number_of, numbered, refuse_differing
from .handle import grouped, handle_of, of_each, synchronize
from .operation import Average
from .process_set import global_process_set, group_of


def _rows(tensor, name, process_set):
    """The first dimensions of all ranks; every other one, and the type, is the same."""
    group = group_of(process_set)
    shape = torch.tensor([tensor.dim(), *tensor.shape], dtype=torch.int64)
    if tensor.dim() == 0:
        raise InvalidError("allgather of a tensor without dimensions: give it one, tensor.reshape(1)")
    padded = torch.zeros(11, dtype=torch.int64)
    padded[-1] = number_of(tensor.dtype)
    if len(shape) >= len(padded):
        raise InvalidError(f"allgather of a tensor of {tensor.dim()} dimensions: at most {len(padded) - 2}")
    padded[:len(shape)] = shape
    shapes = torch.empty(group.size(), len(padded), dtype=torch.int64)
    group.compared.named(name, "allgather")
    group.all_gather_single(shapes, padded).wait()
    refuse_differing(group, "the type of allgather's tensor", [str(numbered(row[-1])) for row in shapes.tolist()])
    if not (shapes[:, [0, *range(2, len(padded))]] == padded[[0, *range(2, len(padded))]]).all():
        each = [tuple(row[1:1 + row[0]]) for row in shapes.tolist()]
        raise InvalidError(f"allgather: the shapes differ in more than the first dimension: {each}")
    return shapes[:, 1].tolist()


@torch.no_grad()
def allgather_async(tensor, name=None, process_set=global_process_set):
    """The ranks' tensors one after the other; their first dimensions may differ, and are exchanged first."""
    rows = _rows(tensor, name, process_set)
    output = tensor.new_empty((sum(rows), *tensor.shape[1:]))
    work = group_of(process_set).allgather([list(output.split(rows))], [tensor])
    return handle_of([work], lambda: output)


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, name, process_set):
        ctx.process_set, ctx.mine = process_set, tensor.shape[0] if tensor.dim() else 0
        return synchronize(allgather_async(tensor, name, process_set))

    @staticmethod
    def backward(ctx, gradient):
        rows = synchronize(allgather_async(torch.tensor([ctx.mine]), None, ctx.process_set)).tolist()
        average = synchronize(allreduce_async(gradient, op=Average, process_set=ctx.process_set))  # as Horovod has it
        return average.split(rows)[ctx.process_set.rank()], None, None


def allgather(tensor, name=None, process_set=global_process_set):
    return _AllGather.apply(tensor, name, process_set)


grouped_allgather_async = grouped(allgather_async)
grouped_allgather = of_each(allgather)
