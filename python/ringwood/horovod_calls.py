"""Horovod's collectives: named, by handle, differentiable, of process sets. See ringwood.horovod."""

import datetime
import enum
from types import SimpleNamespace

import torch
from torch._C._distributed_c10d import ReduceOp

from . import job as _job
from .errors import InvalidError, RefusedError
from .process_group import ProcessGroup

_FOREVER = datetime.timedelta(days=365)  # Horovod's calls have no deadline; who died is found without one
_NUMBERS_FROM = 0xFFFF0000  # of communicators; those of torch.distributed's groups are far below


class Operation(enum.Enum):
    """What an all-reduce does."""
    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


Average, Sum, Adasum, Min, Max, Product = Operation
_REDUCE = {Average: ReduceOp.AVG, Sum: ReduceOp.SUM, Min: ReduceOp.MIN, Max: ReduceOp.MAX, Product: ReduceOp.PRODUCT}


class _NoCompression:
    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, dtype):
        return tensor


class _HalfCompression:
    @staticmethod
    def compress(tensor):
        return (tensor.half(), tensor.dtype) if tensor.is_floating_point() else (tensor, None)

    @staticmethod
    def decompress(tensor, dtype):
        return tensor if dtype is None else tensor.to(dtype)


class Compression:
    """How an all-reduce sends floats."""
    none = _NoCompression
    fp16 = _HalfCompression


# ---- process sets ----

class ProcessSet:
    """Some of the ranks. add_process_set, on all ranks in the same order, makes it ready."""

    def __init__(self, ranks=None):
        self.ranks, self.process_set_id = (None if ranks is None else sorted(ranks)), None

    def included(self):
        return self.ranks is None or _job.current().rank in self.ranks

    def size(self):
        return _job.current().world if self.ranks is None else len(self.ranks)

    def rank(self):
        """Its number within the set; -1 of a rank that is not in it."""
        mine = _job.current().rank
        return mine if self.ranks is None else self.ranks.index(mine) if mine in self.ranks else -1

    def __repr__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


global_process_set = ProcessSet()
global_process_set.process_set_id = 0
_sets = {}    # id -> the ProcessGroup of this rank's
_handles = {}  # number -> (work, what synchronize makes of its result)
_counts = {"sets": 0, "handles": 0}


def add_process_set(process_set):
    """`process_set`: one, or its ranks."""
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise InvalidError(f"{process_set} was added already")
    strangers = [rank for rank in process_set.ranks or () if not 0 <= rank < _job.current().world]
    if strangers:
        raise InvalidError(f"{process_set}: there are no ranks {strangers} among {_job.current().world}")
    _counts["sets"] += 1
    process_set.process_set_id = _counts["sets"]
    return process_set


def remove_process_set(process_set):
    """Whether it was one that can be removed."""
    if process_set.process_set_id in (None, 0):
        return False
    _sets.pop(process_set.process_set_id, None)
    process_set.process_set_id = None
    return True


def forget():
    """The session is about to close."""
    _sets.clear()
    _handles.clear()
    _counts.update(sets=0)


def _group(process_set):
    identity = process_set.process_set_id
    if identity is None:
        raise InvalidError(f"{process_set} was not added: hvd.add_process_set(…) on all ranks")
    if not process_set.included():
        raise InvalidError(f"rank {_job.current().rank} is not in {process_set}")
    if identity not in _sets:
        session = _job.current().session
        ranks = list(range(session.world)) if process_set.ranks is None else process_set.ranks
        joined = SimpleNamespace(session=session, leave=lambda: None)
        _sets[identity] = ProcessGroup(joined, ranks, process_set.rank(), _FOREVER, None, _NUMBERS_FROM + identity)
    return _sets[identity]


# ---- handles ----

def _handle(work, outcome):
    _counts["handles"] += 1
    _handles[_counts["handles"]] = work, outcome
    return _counts["handles"]


def poll(handle):
    """Whether synchronize would not wait."""
    if handle not in _handles:
        raise InvalidError(f"there is no handle {handle}: each is synchronized once")
    return all(work.is_completed() for work in _handles[handle][0])


def synchronize(handle):
    """Waits for a call that was started, and returns its result."""
    if handle not in _handles:
        raise InvalidError(f"there is no handle {handle}: each is synchronized once")
    works, outcome = _handles.pop(handle)
    for work in works:
        work.wait()
    return outcome()


# ---- all-reduce ----

def _operation(average, op):
    if average is not None:
        if op is not None:
            raise InvalidError("give op, or average, which is its former name, and not both")
        return Average if average else Sum
    op = Average if op is None else op
    if op is Adasum:
        raise RefusedError("hvd.Adasum is not in ringwood.horovod: use op=hvd.Average, and scale the learning rate")
    return op


@torch.no_grad()
def _start_allreduce(tensor, output, average, op, prescale_factor, postscale_factor, process_set):
    """Into `output`, which may be the tensor."""
    op, group = _operation(average, op), _group(process_set)
    if output is not tensor:
        output.copy_(tensor)
    if prescale_factor != 1.0:
        output.mul_(prescale_factor)
    whole = op is Average and not tensor.is_floating_point()
    work = group.allreduce([output], SimpleNamespace(reduceOp=ReduceOp.SUM if whole else _REDUCE[op]))

    @torch.no_grad()
    def outcome():
        if whole:
            output.copy_(torch.div(output, group.size(), rounding_mode="trunc"))
        if postscale_factor != 1.0:
            output.mul_(postscale_factor)
        return output

    return [work], outcome


def allreduce_async(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                    process_set=global_process_set):
    return _handle(*_start_allreduce(tensor, torch.empty_like(tensor, memory_format=torch.contiguous_format), average, op,
                                     prescale_factor, postscale_factor, process_set))


def allreduce_async_(tensor, average=None, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                     process_set=global_process_set):
    return _handle(*_start_allreduce(tensor, tensor, average, op, prescale_factor, postscale_factor, process_set))


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


def _grouped(start):
    """Of a list of tensors: one handle."""
    def started(tensors, *arguments, **named):
        handles = [_handles.pop(start(tensor, *arguments, **named)) for tensor in tensors]
        return _handle([work for works, _ in handles for work in works], lambda: [outcome() for _, outcome in handles])

    return started


def _waited(start):
    return lambda tensors, *arguments, **named: synchronize(start(tensors, *arguments, **named))


grouped_allreduce_async, grouped_allreduce_async_ = _grouped(allreduce_async), _grouped(allreduce_async_)
grouped_allreduce_ = _waited(grouped_allreduce_async_)


def grouped_allreduce(tensors, *arguments, **named):
    return [allreduce(tensor, *arguments, **named) for tensor in tensors]


# ---- all-gather ----

def _rows(tensor, process_set):
    """The first dimensions of all ranks; every other one is the same."""
    group = _group(process_set)
    shape = torch.tensor([tensor.dim(), *tensor.shape], dtype=torch.int64)
    if tensor.dim() == 0:
        raise InvalidError("allgather of a tensor without dimensions: give it one, tensor.reshape(1)")
    padded = torch.zeros(10, dtype=torch.int64)
    if len(shape) > len(padded):
        raise InvalidError(f"allgather of a tensor of {tensor.dim()} dimensions: at most {len(padded) - 1}")
    padded[:len(shape)] = shape
    shapes = torch.empty(group.size(), len(padded), dtype=torch.int64)
    group.all_gather_single(shapes, padded).wait()
    if not (shapes[:, [0, *range(2, len(padded))]] == padded[[0, *range(2, len(padded))]]).all():
        each = [tuple(row[1:1 + row[0]]) for row in shapes.tolist()]
        raise InvalidError(f"allgather: the shapes differ in more than the first dimension: {each}")
    return shapes[:, 1].tolist()


@torch.no_grad()
def allgather_async(tensor, name=None, process_set=global_process_set):
    """The ranks' tensors one after the other; their first dimensions may differ, and are exchanged first."""
    rows = _rows(tensor, process_set)
    output = tensor.new_empty((sum(rows), *tensor.shape[1:]))
    work = _group(process_set).allgather([list(output.split(rows))], [tensor])
    return _handle([work], lambda: output)


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, process_set):
        ctx.process_set, ctx.mine = process_set, tensor.shape[0] if tensor.dim() else 0
        return synchronize(allgather_async(tensor, None, process_set))

    @staticmethod
    def backward(ctx, gradient):
        rows = synchronize(allgather_async(torch.tensor([ctx.mine]), None, ctx.process_set)).tolist()
        total = synchronize(allreduce_async(gradient, op=Sum, process_set=ctx.process_set))
        return total.split(rows)[ctx.process_set.rank()], None


def allgather(tensor, name=None, process_set=global_process_set):
    return _AllGather.apply(tensor, process_set)


grouped_allgather_async = _grouped(allgather_async)
grouped_allgather = _waited(grouped_allgather_async)


# ---- broadcast ----

@torch.no_grad()
def _start_broadcast(tensor, output, root_rank, process_set):
    group = _group(process_set)
    ranks = process_set.ranks
    if root_rank not in (ranks or range(group.size())):
        raise InvalidError(f"broadcast from rank {root_rank}, which is not in {process_set}")
    if output is not tensor:
        output.copy_(tensor)
    root = root_rank if ranks is None else ranks.index(root_rank)
    return [group.broadcast([output], SimpleNamespace(rootRank=root))], lambda: output


def broadcast_async(tensor, root_rank, name=None, process_set=global_process_set):
    output = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    return _handle(*_start_broadcast(tensor, output, root_rank, process_set))


def broadcast_async_(tensor, root_rank, name=None, process_set=global_process_set):
    return _handle(*_start_broadcast(tensor, tensor, root_rank, process_set))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, root_rank, process_set):
        ctx.arguments = root_rank, process_set
        return synchronize(broadcast_async(tensor, root_rank, None, process_set))

    @staticmethod
    def backward(ctx, gradient):
        root_rank, process_set = ctx.arguments
        total = synchronize(allreduce_async(gradient, op=Sum, process_set=process_set))
        return total if _job.current().rank == root_rank else torch.zeros_like(total), None, None


def broadcast(tensor, root_rank, name=None, process_set=global_process_set):
    return _Broadcast.apply(tensor, root_rank, process_set)


def broadcast_(tensor, root_rank, name=None, process_set=global_process_set):
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


# ---- all-to-all, reduce-scatter ----

@torch.no_grad()
def alltoall_async(tensor, splits=None, name=None, process_set=global_process_set):
    """`splits`: rows for each rank; without them all get as many. Its result is the rows from all ranks, and with
    splits how many came from each."""
    group = _group(process_set)
    size, rows = group.size(), tensor.shape[0] if tensor.dim() else 0
    if splits is None:
        if rows % size:
            raise InvalidError(f"alltoall of {rows} rows among {size} ranks: give splits")
        mine = torch.full((size,), rows // size, dtype=torch.int64)
    else:
        mine = torch.as_tensor(splits, dtype=torch.int64).cpu()
        if len(mine) != size or int(mine.sum()) != rows or int(mine.min()) < 0:
            raise InvalidError(f"alltoall: splits {mine.tolist()} for {size} ranks and {rows} rows")
    theirs = torch.empty(size, dtype=torch.int64)
    group.all_to_all_single(theirs, mine, [], []).wait()
    output = tensor.new_empty((int(theirs.sum()), *tensor.shape[1:]))
    work = group.all_to_all_single(output, tensor, theirs.tolist(), mine.tolist())
    return _handle([work], lambda: output if splits is None else (output, theirs.to(torch.int32)))


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, splits, process_set):
        size, rows = process_set.size(), tensor.shape[0] if tensor.dim() else 0
        splits = [rows // size] * size if splits is None else splits
        output, received = synchronize(alltoall_async(tensor, splits, None, process_set))
        ctx.received, ctx.process_set = received, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, gradient, _):
        return synchronize(alltoall_async(gradient, ctx.received, None, ctx.process_set))[0], None, None


def alltoall(tensor, splits=None, name=None, process_set=global_process_set):
    output, received = _AllToAll.apply(tensor, splits, process_set)
    return output if splits is None else (output, received)


@torch.no_grad()
def reducescatter_async(tensor, name=None, op=None, prescale_factor=1.0, postscale_factor=1.0,
                        process_set=global_process_set):
    """This rank's rows of the reduction; the first ranks have one more where they do not divide."""
    op, group = _operation(None, op), _group(process_set)
    if op not in (Average, Sum):
        raise RefusedError(f"reducescatter with op {op.name}: hvd.Average or hvd.Sum")
    if tensor.dim() == 0:
        raise InvalidError("reducescatter of a tensor without dimensions")
    given = tensor.mul(prescale_factor) if prescale_factor != 1.0 else tensor
    parts = list(given.contiguous().tensor_split(group.size()))
    output = torch.empty_like(parts[group.rank()])
    work = group.reduce_scatter([output], [parts], SimpleNamespace(reduceOp=ReduceOp.SUM))

    def outcome():
        if op is Average:
            output.copy_(torch.div(output, group.size(), rounding_mode=None if output.is_floating_point() else "trunc"))
        return output.mul_(postscale_factor) if postscale_factor != 1.0 else output

    return _handle([work], outcome)


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, *arguments):
        ctx.arguments = arguments
        return synchronize(reducescatter_async(tensor, *arguments))

    @staticmethod
    def backward(ctx, gradient):
        _, op, before, after, process_set = ctx.arguments
        scale = before * after / (process_set.size() if _operation(None, op) is Average else 1)
        gathered = synchronize(allgather_async(gradient.contiguous() * scale, None, process_set))
        return gathered, *[None] * len(ctx.arguments)


def reducescatter(tensor, name=None, compression=Compression.none, op=None, prescale_factor=1.0, postscale_factor=1.0,
                  process_set=global_process_set):
    small, dtype = compression.compress(tensor)
    scattered = _ReduceScatter.apply(small, name, op, prescale_factor, postscale_factor, process_set)
    return compression.decompress(scattered, dtype)


grouped_reducescatter_async = _grouped(reducescatter_async)
grouped_reducescatter = _waited(grouped_reducescatter_async)


def barrier(process_set=global_process_set):
    _group(process_set).barrier().wait()
