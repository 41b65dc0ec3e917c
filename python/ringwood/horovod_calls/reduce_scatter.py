"""Horovod's reduce-scatter, along the first dimension."""

from types import SimpleNamespace

import torch
from torch._C._distributed_c10d import ReduceOp

from ..errors import InvalidError, RefusedError
from .all_gather import allgather_async
from .compression import Compression
from .handle import grouped, handle_of, of_each, synchronize
from .operation import Average, Sum, operation_of
from .process_set import global_process_set, group_of
from .scaling import scale, scale_whole_average


@torch.no_grad()
def reducescatter_async(tensor, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                        process_set=global_process_set):
    """This rank's rows of the reduction; the first ranks have one more where they do not divide."""
    op, group = operation_of(None, op), group_of(process_set)
    if op not in (Average, Sum):
        raise RefusedError(f"reducescatter with op {op.name}: hvd.Average or hvd.Sum")
    if tensor.dim() == 0:
        raise InvalidError("reducescatter of a tensor without dimensions")
    group.compared.call("reducescatter {1} of {0}, scaled by {2} and {3}", name, tensor, op.name, float(prescale_factor),
                        float(postscale_factor))
    given = scale(tensor.clone(), prescale_factor) if prescale_factor != 1.0 else tensor
    parts = list(given.contiguous().tensor_split(group.size()))
    output = torch.empty_like(parts[group.rank()])
    work = group.reduce_scatter([output], [parts], SimpleNamespace(reduceOp=ReduceOp.SUM))

    @torch.no_grad()
    def outcome():
        if op is Average and not output.is_floating_point():
            return scale_whole_average(output, group.size(), postscale_factor)
        if op is Average:
            output.div_(group.size())
        return scale(output, postscale_factor)

    return handle_of([work], outcome)


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, *arguments):
        ctx.arguments = arguments
        return synchronize(reducescatter_async(tensor, *arguments))

    @staticmethod
    def backward(ctx, gradient):
        _, op, before, after, process_set = ctx.arguments
        # As Horovod has it: for either operation W times the gradient of the sum of all ranks' results.
        scale = before * after * (process_set.size() if operation_of(None, op) is Sum else 1)
        gathered = synchronize(allgather_async(gradient.contiguous() * scale, None, process_set))
        return gathered, *[None] * len(ctx.arguments)


def reducescatter(tensor, name=None, compression=Compression.none, op=None, prescale_factor=1.0, postscale_factor=1.0,
                  process_set=global_process_set):
    small, dtype = compression.compress(tensor)
    scattered = _ReduceScatter.apply(small, name, op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(scattered, dtype)


grouped_reducescatter_async = grouped(reducescatter_async)
grouped_reducescatter = of_each(reducescatter)
