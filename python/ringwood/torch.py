"""Ringwood for PyTorch.

    import ringwood.torch as rw

    rw.init()
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer = rw.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    rw.broadcast_parameters(model.state_dict(), root_rank=0)

The training loop stays what it was, and what it computes is what DistributedDataParallel would; sparse
exchange is asked for (`density=`). Names and meanings follow Horovod where it has them.
"""

import numbers
import zlib

import numpy as np
import torch

from . import ddp as _ddp
from . import job as _job
from .agreement import broadcast_bytes, refuse_differences
from .checkpoint import Checkpoint
from .content import bytes_of as _bytes_of
from .content import refuse_part as _refuse_part
from .content import refuse_sparse as _refuse_sparse
from .ddp import communication_hook
from .elastic import Elastic as _Elastic
from .errors import InvalidError, RefusedError
from .local.average_adamw import AverageAdamW as _AverageAdamW
from .local.local_steps import LocalSteps as _LocalSteps
from .local.outer import Nesterov, OuterSGD
from .optimizer import DistributedOptimizer as _DistributedOptimizer
from .passes.forward import before_forward as _before_forward
from .passes.seeds import Seeds as _Seeds
from .sampler import Sampler as _Sampler
from .scaler import GradScaler
from .state import flatten, gather_tensors, unflatten
from .training import resume, save
from .weights import pulled as _pulled
from .weights import tensor as _tensor

if torch.distributed.is_available():
    from .process_group import register as _register_backend
    _register_backend()

__all__ = ["init", "rank", "size", "local_rank", "shutdown", "session", "DistributedOptimizer",
           "LocalSteps", "AverageAdamW", "Nesterov", "OuterSGD", "GradScaler", "HookState", "Sampler", "communication_hook", "broadcast_parameters",
           "broadcast_buffers", "broadcast_optimizer_state", "elastic", "allreduce", "gather_texts", "Checkpoint", "save", "resume",
           "pull"]


def init(**options):
    """Reads the job from the environment (see ringwood.Session for `options`); a second call does
    nothing, and is refused with options that the first one had not. The session itself opens when it is first needed."""
    if _job.running():
        late = [f"{name}={value!r}" for name, value in options.items() if value not in (None, _job.current().option(name))]
        if late:
            raise RefusedError(f"rw.init({', '.join(late)}) comes too late: an earlier rw.init() or init_process_group"
                               '("ringwood") has begun the job without. Give options in the first call, before '
                               "init_process_group, or to all ranks by the launcher or variables (--wire, RINGWOOD_WIRE)")
    _job.start(options)


def rank():
    return _job.current().rank


def size():
    """As the job was started; session().world changes in an elastic job."""
    return _job.current().world


def local_rank():
    _job.current()
    return _job.local_rank()


def session():
    """The ringwood.Session of this process."""
    return _job.current().session


def shutdown():
    """Leaves the job cleanly."""
    _job.stop()


def DistributedOptimizer(optimizer, named_parameters, density=None, momentum_correction=None,
                         route=None, backward_passes_per_step=1, missing="error", scaler=None,
                         clip_norm=None, device_tensors="auto"):
    """Wraps `optimizer`; see ringwood.optimizer.DistributedOptimizer."""
    return _DistributedOptimizer(_job.current(), optimizer, named_parameters, density,
                                 momentum_correction, route, backward_passes_per_step, missing, scaler,
                                 clip_norm, device_tensors)


def LocalSteps(model, optimizer, every=None, outer=None, density=None, codec=None, delay=None, fragments=1, mix=None,
               residual_decay=1.0, chunk=None, merge=None, ahead=False, *, sync_every=None,
               fragment_sync_delay=None, fragment_update_alpha=None):
    """Takes the place of `optimizer`: ranks train on their own and exchange every `every` steps how far they have come;
    see ringwood.local.local_steps.LocalSteps. `sync_every`, `fragment_sync_delay` and `fragment_update_alpha` are torchft's
    names of `every`, `delay` and `mix`."""
    every = _either("every", every, "sync_every", sync_every)
    if every is None:
        raise InvalidError("LocalSteps needs every=, the steps between two exchanges")
    return _LocalSteps(_job.current(), model, optimizer, every, outer, density, codec,
                       _either("delay", delay, "fragment_sync_delay", fragment_sync_delay) or 0, fragments,
                       _either("mix", mix, "fragment_update_alpha", fragment_update_alpha) or 0.0, residual_decay,
                       chunk, merge, ahead)


def AverageAdamW(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
    """AdamW for LocalSteps, as large in its steps as AdamW on the average of all ranks' gradients; see
    ringwood.local.average_adamw."""
    return _AverageAdamW(params, _world, lr, betas, eps, weight_decay)


def _world():
    """A function of the module, so that an optimizer that has it can be pickled."""
    return _job.current().session.world


def _either(name, value, torchft, other):
    if value is not None and other is not None:
        raise InvalidError(f"{name}= and {torchft}= are two names of one thing: give one")
    return other if value is None else value


def HookState(named_parameters, density=None, momentum_correction=None, route=None, scaler=None,
              clip_norm=None, device_tensors="auto", wire_reach=1.0):
    """For communication_hook; see ringwood.ddp.HookState."""
    return _ddp.HookState(_job.current(), named_parameters, density, momentum_correction, route, scaler,
                          clip_norm, device_tensors, wire_reach)


def Sampler(dataset, batch_size, seed=0, ahead=0, shuffle=True):
    """The global sample cursor, for a DataLoader's `batch_sampler`; see ringwood.sampler.Sampler."""
    made = _Sampler(dataset, batch_size, seed, ahead, shuffle, rank(), size())
    made.seeds = _Seeds()
    return made


def elastic(model, optimizer, sampler, **parts):
    """From here on ranks may die and come; see ringwood.elastic."""
    return _Elastic(model, optimizer, sampler, **parts)


def broadcast_parameters(parameters, root_rank=0, root=None):
    """Broadcasts the root's values, in place. `parameters`: a state_dict, in whatever order, or named parameters. All
    ranks have the same names, types and shapes. A rank that comes to a job that runs gets them with its first step
    instead."""
    if session().receiving:
        return
    root = root_rank if root is None else root
    named = _named(parameters)
    for name, tensor in named:
        if not torch.is_tensor(tensor):
            raise InvalidError(f'broadcast_parameters: "{name}" is a {type(tensor).__name__}, not a tensor')
        _refuse_part(name, tensor)
        _refuse_sparse(name, tensor)
        if torch.nn.parameter.is_lazy(tensor) or tensor.is_meta:
            raise InvalidError(f'broadcast_parameters: "{name}" of a lazy module, or on the device "meta", has no values yet: '
                               "run a batch through the model first, or model.to_empty(device=…)")
    if hasattr(parameters, "items"):
        named.sort(key=lambda item: str(item[0]))
    _broadcast_tensors("broadcast_parameters", named, root,
                       lambda root: [_broadcast_tensor(tensor, root) for _, tensor in named])


def _named(parameters):
    """[(name, tensor)]."""
    given = getattr(parameters, "items", lambda: parameters)()
    named = list(given) if hasattr(given, "__iter__") else [given]
    if not all(isinstance(each, (tuple, list)) and len(each) == 2 for each in named):
        raise InvalidError("broadcast_parameters takes model.state_dict(), or pairs of a name and a tensor as "
                           "model.named_parameters() gives them")
    return named


def _broadcast_tensors(what, named, root, broadcast):
    """`broadcast(root)` on all ranks, once their tensors were compared."""
    table = {f"{what}: tensor {at}": f'"{name}", {_kind_of(tensor)}' for at, (name, tensor) in enumerate(named)}
    refuse_differences(session(), {f"{what}: the root": root, **table}, root, broadcast)


def _kind_of(tensor):
    if torch.nn.parameter.is_lazy(tensor):
        return "without a shape yet"
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


@torch.no_grad()
def _broadcast_tensor(tensor, root):
    if tensor.numel() == 0:
        return
    staged = _bytes_of(tensor)
    session().broadcast(staged, root)
    received = staged.view(tensor.dtype).view(tensor.shape)
    if received.data_ptr() != tensor.data_ptr():
        _fill(tensor, received)


def _fill(tensor, values):
    """Of an expanded tensor, whose elements share memory, each place once."""
    for dimension, stride in enumerate(tensor.stride()):
        if stride == 0:
            tensor, values = tensor.narrow(dimension, 0, 1), values.narrow(dimension, 0, 1)
    tensor.copy_(values)


def broadcast_buffers(model, root_rank=0):
    """From now on every forward of `model` in training mode begins with the root's buffers (the running statistics
    of BatchNorm), as with DistributedDataParallel: all ranks call it equally often. Returns a handle, whose
    remove() ends it. Copies of the model have it not. Not with rw.elastic, which it would undo."""
    def broadcast(module):
        if module.training and _job.current().elastic:
            raise RefusedError("broadcast_buffers needs all ranks in every forward, and with rw.elastic a rank may die or "
                               "come there: leave it out; who comes gets the buffers with the other state")
        buffers = [(name, buffer) for name, buffer in module.named_buffers() if buffer.numel()]
        for name, buffer in buffers:
            _refuse_sparse(name, buffer)
        if module.training and buffers:
            _broadcast_together(buffers, root_rank)

    return _before_forward(model, broadcast)


@torch.no_grad()
def _broadcast_together(named, root):
    """With a checksum of each one's name, type and shape before them."""
    kinds = np.array([zlib.crc32(f"{name} {_kind_of(tensor)}".encode()) for name, tensor in named], np.uint32)
    parts = [torch.from_numpy(kinds.view(np.uint8)), *[_bytes_of(tensor) for _, tensor in named]]
    together = torch.cat(parts)
    session().broadcast(together, root)
    if session().rank == root:
        return
    theirs, *parts = together.split([len(part) for part in parts])
    for same, (name, tensor) in zip(kinds == theirs.numpy().view(np.uint32), named):
        if not same:
            raise InvalidError(f'broadcast_buffers: "{name}" is {_kind_of(tensor)} on rank {rank()}, and rank {root} has '
                               "another name, type or shape there: the models must be the same on every rank")
    for (_, tensor), part in zip(named, parts):
        _fill(tensor, part.clone().view(tensor.dtype).view(tensor.shape))


def broadcast_optimizer_state(optimizer, root_rank=0, root=None):
    """Broadcasts the root's state: momenta, counters, learning rates. The optimizer's parameters have the same types and
    shapes on all ranks. Nothing on a rank that comes to a job that runs."""
    if session().receiving:
        return
    root = root_rank if root is None else root
    named = [(f"group {number}", tensor) for number, group in enumerate(optimizer.param_groups) for tensor in group["params"]]
    _broadcast_tensors("broadcast_optimizer_state", named, root, lambda root: _broadcast_state(optimizer, root))


def _broadcast_state(optimizer, root):
    skeleton, tensors = flatten(optimizer.state_dict())
    skeleton = broadcast_bytes(session(), skeleton if session().rank == root else b"", root)
    if session().rank != root:
        tensors = gather_tensors(skeleton)
    tensors = [tensor.detach().clone() for tensor in tensors.values()]
    for tensor in tensors:
        _broadcast_tensor(tensor, root)
    if session().rank != root:
        optimizer.load_state_dict(unflatten(skeleton, tensors))


@torch.no_grad()
def allreduce(value, op="average"):
    """The average of all ranks' `value` ("sum", "max", "min", "product" with `op`), which is left as it is: of a number
    a float, of a tensor a new one like it. For losses and metrics; every rank calls it at the same place. In
    an elastic job it may raise AbortedError, see docs/python.md."""
    if isinstance(value, (numbers.Real, np.generic)):
        return session().allreduce(np.array([value], np.float64), op).item()
    if not torch.is_tensor(value) or value.layout is not torch.strided:
        raise InvalidError(f"allreduce takes a number or a dense tensor, not a {getattr(value, 'layout', type(value).__name__)}")
    result = value.detach().cpu().contiguous().clone()
    return session().allreduce(result, op).to(value.device)


def gather_texts(text):
    """A list with every rank's text, the same on all ranks."""
    return [broadcast_bytes(session(), text.encode(), each).decode() for each in range(session().world)]


def pull(server=None, items=None, job=None, timeout=60.0, *, newest_stored=False, rank=None, token=None):
    """(step, name -> CPU tensor): the newest committed weights of a job, for a process that is no rank of it, as
    `model.load_state_dict` takes them. No init is needed; see ringwood.pull."""
    return _pulled(_tensor, server, items, job, timeout, newest_stored=newest_stored, rank=rank, token=token)
