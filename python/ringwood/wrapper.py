"""What stands in the place of a PyTorch optimizer, and which optimizers it may wrap."""

import inspect

import torch

from .errors import InvalidError, RefusedError
from .local.average_adamw import AverageAdamW
from .slot import is_empty


class OptimizerWrapper(torch.optim.Optimizer):
    """Stands in the place of the PyTorch optimizer `inner`, whose parameter groups, state and defaults are its own.
    DistributedOptimizer and LocalSteps are ones."""

    # A fused optimizer takes a GradScaler's factor in its step, from attributes that the scaler sets. They would be set
    # on the wrapper, where it does not look: so the scaler unscales the gradients itself.
    _step_supports_amp_scaling = False

    @property
    def param_groups(self):
        return self.inner.param_groups

    @property
    def state(self):
        return self.inner.state

    @property
    def defaults(self):
        return self.inner.defaults

    def __getattr__(self, name):
        """Other attributes, such as registered hooks, are the wrapped optimizer's."""
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __reduce_ex__(self, protocol):
        raise RefusedError(f"a {type(self).__name__} belongs to the session of its process and is neither copied nor "
                           "pickled: keep its state_dict(), or let rw.Checkpoint do that")

    def _refuse_strangers(self, known):
        """`known`: ids of the parameters that are exchanged. Another one that the optimizer updates would drift away
        from the other ranks' in silence."""
        strangers = sum(parameter.requires_grad and not is_empty(parameter) for group in self.param_groups
                        for parameter in group["params"] if id(parameter) not in known)
        if strangers:
            raise RefusedError(f"{strangers} parameter(s) of the optimizer were added, replaced or unfrozen since the "
                               f"ranks agreed on the plan: make them, trainable, before the {type(self).__name__}, and "
                               f"freeze them after it{self.how_to_freeze}")

    how_to_freeze = ""

    saved_at = None  # the step of the session's whose checkpoint was made last, or failed; alike on all ranks
    saving_at = None  # the step of which the others were about to make a checkpoint, where this rank came to them
    leads = True  # its steps are the session's; those of a further DistributedOptimizer follow them

    def shared_state(self):
        """What is alike on all ranks of its state, for a checkpoint and for ranks that come; load_state_dict takes it."""
        return self.state_dict()

    def add_param_group(self, group):
        name = type(self).__name__
        raise RefusedError(f"parameters cannot be added after the ranks agreed on the plan: make the {name} when all "
                           "parameter groups are there; or, on every rank, rw.shutdown(), .inner.add_param_group(group), "
                           f"rw.init(), and a new {name} of .inner")


def refuse_wrapped(optimizer):
    """Around another wrapper, what is exchanged would be exchanged again."""
    if isinstance(optimizer, OptimizerWrapper):
        raise InvalidError(f"the optimizer is a {type(optimizer).__name__} already: give the one that it wraps, .inner")


def refuse_kind(optimizer):
    """LBFGS and the like evaluate the closure several times a step: each would be an exchange. SparseAdam refuses what
    the exchange gives, AverageAdamW corrects for what it does not."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InvalidError(f"{type(optimizer).__name__} evaluates its closure several times in one step; "
                           "only optimizers that take one gradient a step can be distributed")
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise InvalidError("SparseAdam takes sparse gradients alone, and averages come as dense ones: use Adam, or "
                           "DistributedDataParallel with rw.communication_hook, which gives sparse averages back")
    if isinstance(optimizer, AverageAdamW):
        raise InvalidError("AverageAdamW is for rw.LocalSteps, whose ranks step on their own gradients: these are averages "
                           "already, so use torch.optim.AdamW")
