"""Horovod's broadcast."""

from types import SimpleNamespace

import torch

from .. import job as _job
from ..errors import InvalidError
from .all_reduce import allreduce_async
from .handle import handle_of, synchronize
from .operation import Average
from .process_set import global_process_set, group_of


@torch.no_grad()
def _start_broadcast(tensor, output, root_rank, name, process_set):
    group = group_of(process_set)
    ranks = process_set.ranks
    if root_rank not in (ranks or range(group.size())):
        raise InvalidError(f"broadcast from rank {root_rank}, which is not in {process_set}")
    group.compared.call("broadcast of {0} from rank {1}", name, tensor, root_rank)
    if output is not tensor:
        output.copy_(tensor)
    root = root_rank if ranks is None else ranks.index(root_rank)
    return [group.broadcast([output], SimpleNamespace(rootRank=root))], lambda: output


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    output = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    return handle_of(*_start_broadcast(tensor, output, root_rank, name, process_set))


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    return handle_of(*_start_broadcast(tensor, tensor, root_rank, name, process_set))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):
        ctx.arguments = root_rank, process_set
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, gradient):
        root_rank, process_set = ctx.arguments
        average = synchronize(allreduce_async(gradient, op=Average, process_set=process_set))  # as Horovod has it
        return average if _job.current().rank == root_rank else torch.zeros_like(average), None, None, None


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    return _Broadcast.apply(tensor, root_rank, name, process_set)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))
