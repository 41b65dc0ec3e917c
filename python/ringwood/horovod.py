"""Horovod's names over Ringwood: in a script for PyTorch `import horovod.torch as hvd` becomes

    import ringwood.horovod as hvd

and `horovodrun -np 4 python train.py` becomes `ringwood run -np 4 -- python train.py`. All calls are made in the same
order on every rank; names of tensors are taken and not needed. What does not make sense here is refused by its name,
with what to do instead. Gradients are exchanged densely; sparse exchange is ringwood.torch's.
"""

import os
import pickle
import sys
import weakref

import torch

from . import job as _job
from . import torch as _rw
from .agreement import broadcast_bytes, refuse_differences
from .errors import AbortedError as HostsUpdatedInterrupt
from .errors import InvalidError, RefusedError
from .errors import RingwoodError as HorovodInternalError
from .horovod_calls.all_gather import allgather, allgather_async, grouped_allgather, grouped_allgather_async
from .horovod_calls.all_reduce import (allreduce, allreduce_, allreduce_async, allreduce_async_, grouped_allreduce,
                                       grouped_allreduce_, grouped_allreduce_async, grouped_allreduce_async_)
from .horovod_calls.all_to_all import alltoall, alltoall_async
from .horovod_calls.broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from .horovod_calls.compression import Compression
from .horovod_calls.handle import forget_handles, poll, synchronize
from .horovod_calls.operation import Adasum, Average, Max, Min, Product, Sum
from .horovod_calls.process_set import (ProcessSet, add_process_set, barrier, forget_process_sets, global_process_set,
                                        remove_process_set)
from .horovod_calls.reduce_scatter import (grouped_reducescatter, grouped_reducescatter_async, reducescatter,
                                           reducescatter_async)
from .horovod_calls.sums import Sums

__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "HorovodInternalError", "HostsUpdatedInterrupt",
           "Max", "Min", "ProcessSet", "Product", "Sum", "add_process_set", "allgather", "allgather_async",
           "allgather_object", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "alltoall",
           "alltoall_async", "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_",
           "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters", "cross_rank", "cross_size",
           "global_process_set", "grouped_allgather", "grouped_allgather_async", "grouped_allreduce",
           "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_", "grouped_reducescatter",
           "grouped_reducescatter_async", "init", "is_homogeneous", "is_initialized", "join", "local_rank",
           "local_size", "poll", "rank", "reducescatter", "reducescatter_async", "remove_process_set", "shutdown",
           "size", "synchronize"]

_INSTEAD = {
    "elastic": "use ringwood.torch.elastic(model, optimizer, sampler) and `ringwood run --elastic`",
    "SyncBatchNorm": "use ringwood.torch.broadcast_buffers(model), or layers without running statistics (GroupNorm)",
    "sparse_allreduce_async": "gradients are dense here: nn.Embedding(sparse=False), or sparse exchange by "
                              "ringwood.torch.DistributedOptimizer(…, density=0.01)",
    "start_timeline": "start the job with `ringwood run --timeline FILE`",
    "stop_timeline": "start the job with `ringwood run --timeline FILE`",
    "run": "start the job with `ringwood run -np 4 -- python train.py`",
}


class NotHereError(RefusedError, AttributeError):
    """For a script that asks by hasattr, there is none."""


def __getattr__(name):
    if name in _INSTEAD:
        raise NotHereError(f"horovod's {name} is not in ringwood.horovod: {_INSTEAD[name]}")
    if name.endswith(("_built", "_enabled")) or name == "mpi_threads_supported":
        return lambda verbose=False: False  # what the library was built with: none of Horovod's
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_optimizers = weakref.WeakSet()  # of the session


# ---- the job ----

def init(comm=None, process_sets=None):
    """A second call does nothing. `process_sets`: a list of ProcessSet to add."""
    if comm is not None:
        raise RefusedError("hvd.init(comm=…): a job has all ranks that `ringwood run` started; a part of them is "
                           "hvd.add_process_set([0, 1])")
    if not is_initialized():
        _rw.init()
        _job.current().leaving.append(_forget)
    if process_sets == "dynamic":
        process_sets = None
    for each in process_sets or ():
        add_process_set(each)


def _forget():
    forget_process_sets()
    forget_handles()
    _optimizers.clear()


def shutdown():
    _rw.shutdown()


def is_initialized():
    return _job.running()


rank, size, local_rank = _rw.rank, _rw.size, _rw.local_rank


def local_size():
    """The ranks on this host."""
    _job.current()
    return int(os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") or 1)


def cross_rank():
    """This host's number."""
    _job.current()
    return int(os.environ.get("GROUP_RANK") or rank() // local_size())


def cross_size():
    """Hosts that have a rank with this one's local number, if all hosts have as many ranks."""
    return -(-size() // local_size())


def is_homogeneous():
    return size() % local_size() == 0


# ---- state ----

def broadcast_parameters(params, root_rank):
    """`params`: a state_dict, in whatever order, pairs of name and tensor, or tensors."""
    if hasattr(params, "items"):
        params = {name: tensor for name, tensor in params.items() if tensor is not None}
    else:
        named = [(f"tensor {at}", each) if torch.is_tensor(each) else each for at, each in enumerate(params)]
        params = [each for each in named if not (isinstance(each, tuple) and each[1:] == (None,))]
    _rw.broadcast_parameters(params, root_rank)


def broadcast_optimizer_state(optimizer, root_rank, model=None):
    _rw.broadcast_optimizer_state(getattr(optimizer, "inner", optimizer), root_rank)


def broadcast_object(obj=None, root_rank=0, name=None, process_set=global_process_set):
    """The root's, which pickle can send. A rank that comes to a job that runs is refused: the others make no such call."""
    _whole("broadcast_object", process_set)
    session, received = _rw.session(), []

    def broadcast(root):
        is_root = session.rank == root
        content = broadcast_bytes(session, pickle.dumps(obj) if is_root else b"", root)
        received[:] = [obj if is_root else pickle.loads(content)]

    refuse_differences(session, {"broadcast_object: the root": root_rank}, root_rank, broadcast)
    if not received:
        raise RefusedError("broadcast_object on a rank that comes to a job that runs: the others are past this call")
    return received[0]


def allgather_object(obj, name=None, process_set=global_process_set):
    """A list of every rank's."""
    content = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8)
    lengths = allgather(torch.tensor([len(content)]), process_set=process_set).tolist()
    together = allgather(content, process_set=process_set)
    return [pickle.loads(part.numpy().tobytes()) for part in together.split(lengths)]


def _whole(what, process_set):
    if process_set is not global_process_set:
        raise RefusedError(f"{what} of a process set: it is of all ranks here")


# ---- training ----

def DistributedOptimizer(optimizer, named_parameters=None, compression=Compression.none, backward_passes_per_step=1,
                         op=Average, gradient_predivide_factor=1.0, num_groups=0, groups=None, sparse_as_dense=False,
                         process_set=global_process_set):
    """ringwood.torch.DistributedOptimizer by Horovod's arguments. The planner decides what is sent together, whatever
    `groups` and `num_groups` say; a factor that divides before and multiplies after a sum in fp32 changes nothing."""
    _whole("DistributedOptimizer", process_set)
    if op not in (Average, Sum):
        raise RefusedError(f"DistributedOptimizer(op={op.name}): gradients are averaged (hvd.Average) or summed (hvd.Sum)")
    if gradient_predivide_factor != 1.0 and op is not Average:
        raise InvalidError("gradient_predivide_factor is for op=hvd.Average")
    if named_parameters is None:
        named_parameters = [(f"allreduce.noname.{i}.{j}", parameter) for i, group in enumerate(optimizer.param_groups)
                            for j, parameter in enumerate(group["params"])]
    _take(compression)
    made = _rw.DistributedOptimizer(optimizer, named_parameters, backward_passes_per_step=backward_passes_per_step,
                                    missing="zero")
    if op is Sum:
        made.sums = Sums([parameter for group in optimizer.param_groups for parameter in group["params"]
                          if parameter.requires_grad])
        _job.current().leaving.append(made.sums.leave)
    _optimizers.add(made)
    return made


def _take(compression):
    """Gradients in 16 bits are the session's, which may be open by now."""
    if compression is Compression.none or os.environ.get("RINGWOOD_WIRE") == "bf16":
        return
    job = _job.current()
    if job.opened:
        if rank() == 0:
            sys.stderr.write("W rank 0: Compression.fp16 comes after the first exchange: gradients travel as fp32. Start "
                             "the job with `ringwood run --wire bf16`\n")
    else:
        job.set_option("wire", "bf16")


def join(device=-1):
    """For a rank whose data ends before that of others: takes part in their steps without samples, until all ranks are
    here. Returns the rank that came last. Calls outside of DistributedOptimizer are not taken part in."""
    if len(_optimizers) > 1:
        raise RefusedError("join() with several DistributedOptimizers: call optimizer.join() of each")
    taken = [optimizer.join() for optimizer in _optimizers]
    steps = allgather(torch.tensor([taken[0] if taken else 0])).tolist()
    return max(range(size()), key=lambda each: (-steps[each], each))
