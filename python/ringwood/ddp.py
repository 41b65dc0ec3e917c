"""DistributedDataParallel whose gradients travel over Ringwood.

    torch.distributed.init_process_group("gloo")    # MASTER_ADDR and MASTER_PORT: from `ringwood run`
    rw.init()
    model = DistributedDataParallel(model)
    model.register_comm_hook(rw.HookState(model.named_parameters()), rw.communication_hook)

Buckets are only where the gradients lie: what is registered are the parameters, because the buckets
change after the first step, and because the plan merges by itself.
"""

import gc
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

from .device import Arrivals
from .errors import InvalidError, RefusedError
from .recipe import recipe_of
from .slot import exchanged_as, is_empty, once, pairs_of, settle, slot_of, types_of
from .velocity import Velocity


class HookState:
    """The state of communication_hook; see DistributedOptimizer for the settings. It never sees the
    optimizer: without `momentum_correction` there is none, also for sparse tensors.

    `weight`: samples of this rank, to be set before backward; the average is weighted by it. A NaN or Inf
    on one rank makes the gradients of all ranks NaN, as a plain all-reduce does, so that a GradScaler
    leaves the step out everywhere. `wire_reach`: 0.5 where the optimizer is AdamW or its like and int4 travels, which
    DistributedOptimizer sees by itself. `last`: the StepResult of the last backward.
    """

    def __init__(self, job, named_parameters, density=None, momentum_correction=None, route=None,
                 scaler=None, clip_norm=None, device_tensors="auto", wire_reach=1.0):
        trained = [pair for pair in once(pairs_of(named_parameters)) if pair[1].requires_grad and not _ignored(pair[1])]
        named = {name: parameter for name, parameter in trained if not is_empty(parameter)}
        self._scaler = scaler if scaler is not None and scaler.is_enabled() else None
        recipe = recipe_of(route, density, momentum_correction, clip_norm)
        settings = dict.fromkeys(named, recipe.settings)
        self._stream = job.exchange_stream(device_tensors, named.values(), settings.values())
        scaled = self._scaler is not None
        self._slots = [slot_of(name, parameter, self._stream, scaled, bucketed=True,
                               dtype=exchanged_as(parameter, job.session, recipe, scaled))
                       for name, parameter in named.items()]
        self.session = job.session
        self._exchange = job.register("communication hook", self._slots, settings, self._stream, wire_reach,
                                      **types_of(named))
        self.weight = 1.0
        self.last = None
        self._scale = 1.0
        self._running = False  # between the first bucket and the last
        self._names = {id(parameter): name for name, parameter in trained}
        self._seen = set()     # the parameters, by id, whose bucket was there in this backward
        self._pending = []     # (future, content, the same made dense or None) of the buckets before it
        self._arrivals = Arrivals(self._exchange)
        self._index = {id(parameter): index for index, parameter in enumerate(named.values())}
        self._velocity = Velocity(self._exchange, self._slots, dict.fromkeys(named, recipe.velocity))
        job.leaving.append(self._leave)

    def exchange(self, bucket):
        """Announces the bucket's gradients; the last one of a backward waits for the commit."""
        if not self._running:
            if self.last is None and not bucket.is_last():
                self._refuse_without_bucket(_ignored_by(self))
            self._exchange.begin_step(self.weight)
            self._running = True
            self._scale = self._scaler.get_scale() if self._scaler is not None else 1.0
        content, dense = bucket.buffer(), None
        if content.is_sparse:  # a bucket of its own, of an Embedding(sparse=True)
            dense = content.to_dense()
        for parameter, gradient in zip(bucket.parameters(), _gradients(bucket) if dense is None else [dense]):
            if is_empty(parameter):
                continue
            index = self._index.get(id(parameter))
            if index is None:
                raise RefusedError("the bucket holds a parameter that was not in named_parameters; pass "
                                   "all of the model's to HookState")
            if self._slots[index].take(self._exchange, gradient, self._scale):
                self._exchange.ready(index)
            else:
                self._arrivals.add(index, self._slots[index])
        future = torch.futures.Future(devices=[content.device] if content.is_cuda else None)
        self._pending.append((future, content, dense))
        self._seen.update(map(id, bucket.parameters()))
        if self._names.keys() <= self._seen:  # of a static graph's first backward no bucket is the last
            self._finish()
        elif bucket.is_last():
            self._refuse_without_bucket(self._names.keys() - self._seen)
        return future

    def _refuse_without_bucket(self, parameters):
        """`parameters`: by id."""
        names = [name for each, name in self._names.items() if each in parameters]
        if names:
            raise RefusedError(f"DistributedDataParallel has no bucket with {', '.join(names)}: leave the parameters that it "
                               "ignores out of what HookState is given")

    def _finish(self):
        self._arrivals.wait()
        self.last = self._exchange.finish_step()
        settle(self._slots, self._stream, self._velocity, self.last.skipped, self._scale)
        pending, self._pending, self._running, self._seen = self._pending, [], False, set()
        for future, content, dense in pending:  # dense: where the average is, which DistributedDataParallel takes sparse
            future.set_result(content if dense is None else dense.to_sparse(content.sparse_dim()))

    def _leave(self):
        """Before the session closes. A framework may leave a hook out that it was given, without a word."""
        in_vain = self.last is None and not self._running and bool(self._slots) and not self.session.closed
        if in_vain and self.session.rank == 0 and getattr(sys, "last_value", None) is None:
            sys.stderr.write(f"W rank {self.session.slot}: no backward came to the HookState of {len(self._slots)} parameters: "
                             "Ringwood exchanged none of their gradients. Give it to register_comm_hook(state, "
                             "rw.communication_hook) of the DistributedDataParallel whose forward is called\n")

    def state_dict(self):
        """The velocity of the dense tensors."""
        return {"velocity": dict(self._velocity.of)}

    def load_state_dict(self, state):
        self._velocity.load(state["velocity"])


def _ignored(parameter):
    """Marked by DistributedDataParallel._set_params_and_buffers_to_ignore_for_model: no bucket holds it."""
    return getattr(parameter, "_ddp_ignored", False)


def _ignored_by(state):
    """What the model of the hook lists itself, by id. Asked once: where no bucket is the last, as in a static graph's first
    backward, one that does not come would be waited for without end."""
    mine = [model for model in _models() if any(other is state for _, other in getattr(model, "_comm_hooks", ()))]
    return {id(parameter) for model in mine for name, parameter in model.module.named_parameters()
            if name in model.parameters_to_ignore}


def _models():
    return [each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel)]


def refuse_beside(named):
    """DistributedDataParallel writes averages of its own over those of a DistributedOptimizer. `named`: name -> parameter."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    averaged = _averaged()
    if not averaged.isdisjoint(map(id, named.values())):
        gc.collect()  # a model that nobody uses any more
        averaged = _averaged()
    names = [name for name, parameter in named.items() if id(parameter) in averaged]
    if names:
        raise RefusedError(f"{len(names)} parameter(s) of the DistributedOptimizer are in a DistributedDataParallel too, which "
                           f"would write its averages over Ringwood's: {', '.join(names[:10])}{', …' if names[10:] else ''}. Train "
                           "the model without it, or keep it and the plain optimizer, and register rw.communication_hook")


def _averaged():
    """Of all models, by id."""
    return {id(parameter) for model in _models() if model.require_backward_grad_sync
            for name, parameter in model.module.named_parameters() if name not in model.parameters_to_ignore}


def _gradients(bucket):
    """Views of the bucket. Of complex parameters PyTorch hands out a real buffer, and a list that takes counts of complex
    numbers for counts of real ones (2.13)."""
    parameters = bucket.parameters()
    if not parameters[0].is_complex():  # a bucket has one type
        return bucket.gradients()
    content = bucket.buffer()
    numbers = content if content.is_complex() else torch.view_as_complex(content.view(-1, 2))
    parts = numbers.split([parameter.numel() for parameter in parameters])
    return [part.view(parameter.shape) for part, parameter in zip(parts, parameters)]


def communication_hook(state, bucket):
    """For DistributedDataParallel.register_comm_hook, with a HookState. Divides by the sum of the weights
    itself."""
    if not isinstance(state, HookState):
        raise InvalidError(f"communication_hook needs a ringwood.torch.HookState, not {type(state).__name__}"
                           ": model.register_comm_hook(rw.HookState(model.named_parameters()), "
                           "rw.communication_hook)")
    if isinstance(bucket, tuple):
        raise RefusedError('the Python reducer of DistributedDataParallel hands out no buckets: turn off '
                           'torch._dynamo.config.optimize_ddp = "python_reducer", and compiled autograd, which needs it')
    return state.exchange(bucket)
