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

import numpy as np
import torch

from . import ddp as _ddp
from . import job as _job
from .agreement import broadcast_bytes
from .checkpoint import Checkpoint
from .ddp import communication_hook
from .elastic import Elastic as _Elastic
from .errors import InvalidError
from .local.average_adamw import AverageAdamW as _AverageAdamW
from .local.local_steps import LocalSteps as _LocalSteps
from .local.outer import Nesterov, OuterSGD
from .optimizer import DistributedOptimizer as _DistributedOptimizer
from .passes.forward import before_forward as _before_forward
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
    nothing. The session itself opens when it is first needed."""
    _job.start(options)


def rank():
    return _job.current().rank


def size():
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
    return _Sampler(dataset, batch_size, seed, ahead, shuffle, rank(), size())


def elastic(model, optimizer, sampler):
    """From here on ranks may die and come; see ringwood.elastic."""
    return _Elastic(model, optimizer, sampler)


def broadcast_parameters(parameters, root_rank=0, root=None):
    """Broadcasts the root's values, in place. `parameters`: a state_dict or named parameters. A rank that comes to a job
    that runs gets them with its first step instead."""
    if session().receiving:
        return
    root = root_rank if root is None else root
    items = parameters.items() if hasattr(parameters, "items") else parameters
    for name, tensor in items:
        if not torch.is_tensor(tensor):
            raise InvalidError(f'broadcast_parameters: "{name}" is a {type(tensor).__name__}, not a tensor')
        if torch.nn.parameter.is_lazy(tensor) or tensor.is_meta:
            raise InvalidError(f'broadcast_parameters: "{name}" of a lazy module, or on the device "meta", has no values yet: '
                               "run a batch through the model first, or model.to_empty(device=…)")
        _broadcast_tensor(tensor, root)


@torch.no_grad()
def _broadcast_tensor(tensor, root):
    if tensor.numel() == 0:
        return
    staged = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    session().broadcast(staged, root)
    received = staged.view(tensor.dtype).view(tensor.shape)
    if received.data_ptr() != tensor.data_ptr():
        tensor.copy_(received)


def broadcast_buffers(model, root_rank=0):
    """From now on every forward of `model` in training mode begins with the root's buffers (the running statistics
    of BatchNorm), as with DistributedDataParallel: all ranks call it equally often. Returns a handle, whose
    remove() ends it. Copies of the model have it not."""
    def broadcast(module):
        buffers = [buffer for buffer in module.buffers() if buffer.numel()]
        if module.training and buffers:
            _broadcast_together(buffers, root_rank)

    return _before_forward(model, broadcast)


@torch.no_grad()
def _broadcast_together(tensors, root):
    together = torch.cat([tensor.detach().cpu().flatten().view(torch.uint8) for tensor in tensors])
    session().broadcast(together, root)
    parts = together.split([tensor.numel() * tensor.element_size() for tensor in tensors])
    if rank() != root:
        for tensor, part in zip(tensors, parts):
            tensor.copy_(part.clone().view(tensor.dtype).view(tensor.shape))


def broadcast_optimizer_state(optimizer, root_rank=0, root=None):
    """Broadcasts the root's state: momenta, counters, learning rates. Nothing on a rank that comes to a job that runs."""
    if session().receiving:
        return
    root = root_rank if root is None else root
    skeleton, tensors = flatten(optimizer.state_dict())
    skeleton = broadcast_bytes(session(), skeleton if rank() == root else b"", root)
    if rank() != root:
        tensors = gather_tensors(skeleton)
    tensors = [tensor.detach().clone() for tensor in tensors.values()]
    for tensor in tensors:
        _broadcast_tensor(tensor, root)
    if rank() != root:
        optimizer.load_state_dict(unflatten(skeleton, tensors))


@torch.no_grad()
def allreduce(value, op="average"):
    """The average of all ranks' `value` ("sum", "max", "min", "product" with `op`), which is left as it is: of a number
    a float, of a tensor a new one like it. For losses and metrics; every rank calls it at the same place, and not
    between the steps of an elastic job."""
    if isinstance(value, (numbers.Real, np.generic)):
        return session().allreduce(np.array([value], np.float64), op).item()
    if not torch.is_tensor(value) or value.layout is not torch.strided:
        raise InvalidError(f"allreduce takes a number or a dense tensor, not a {getattr(value, 'layout', type(value).__name__)}")
    result = value.detach().cpu().contiguous().clone()
    return session().allreduce(result, op).to(value.device)


def gather_texts(text):
    """A list with every rank's text, the same on all ranks."""
    return [broadcast_bytes(session(), text.encode(), each).decode() for each in range(size())]


def pull(server=None, items=None, job=None, timeout=60.0, *, newest_stored=False, rank=None, token=None):
    """(step, name -> CPU tensor): the newest committed weights of a job, for a process that is no rank of it, as
    `model.load_state_dict` takes them. No init is needed; see ringwood.pull."""
    return _pulled(_tensor, server, items, job, timeout, newest_stored=newest_stored, rank=rank, token=token)
