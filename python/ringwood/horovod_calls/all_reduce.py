"""Horovod's all-reduce."""

from types import SimpleNamespace

import torch
from torch._C._distributed_c10d import ReduceOp

from .compression import Compression
from .handle import grouped, handle_of, of_each, synchronize
from .operation import REDUCE_OPS, Average, operation_of
from .process_set import global_process_set, group_of
from .scaling import scale, scale_whole_average


@torch.no_grad()
def _start_allreduce(tensor, output, average, name, op, prescale_factor, postscale_factor, process_set):
    """Into `output`, which may be the tensor."""
    op, group = operation_of(average, op), group_of(process_set)
    group.compared.call("allreduce {1} of {0}, scaled by {2} and {3}", name, tensor, op.name, float(prescale_factor),
                        float(postscale_factor))
    if output is not tensor:
        output.copy_(tensor)
    scale(output, prescale_factor)
    whole = op is Average and not tensor.is_floating_point()
    work = group.allreduce([output], SimpleNamespace(reduceOp=ReduceOp.SUM if whole else REDUCE_OPS[op]))

    @torch.no_grad()
    def outcome():
        return scale_whole_average(output, group.size(), postscale_factor) if whole else scale(output, postscale_factor)

    return [work], outcome


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set):
    output = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    return handle_of(*_start_allreduce(tensor, output, average, name, op, prescale_factor, postscale_factor,
                                       process_set))


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set):
    return handle_of(*_start_allreduce(tensor, tensor, average, name, op, prescale_factor, postscale_factor,
                                       process_set))


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, *arguments):
        ctx.arguments = arguments
        return synchronize(allreduce_async(tensor, *arguments))

    @staticmethod
    def backward(ctx, gradient):
        return synchronize(allreduce_async(gradient, *ctx.arguments)), *[None] * len(ctx.arguments)


def allreduce(tensor, average=None, name=None, compression=Compression.none, op=None, prescale_factor=1.0,
              postscale_factor=1.0, process_set=global_process_set):
    """A new tensor; its gradient is all-reduced in the same way."""
    small, dtype = compression.compress(tensor)
    reduced = _AllReduce.apply(small, average, name, op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(reduced, dtype)


def allreduce_(tensor, *arguments, **named):
    return synchronize(allreduce_async_(tensor, *arguments, **named))


grouped_allreduce_async, grouped_allreduce_async_ = grouped(allreduce_async), grouped(allreduce_async_)
grouped_allreduce = of_each(allreduce)


def grouped_allreduce_(tensors, *arguments, **named):
    return synchronize(grouped_allreduce_async_(tensors, *arguments, **named))
