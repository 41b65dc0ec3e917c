"""DistributedOptimizer: any torch optimizer, its gradients averaged over all ranks before each step.

A hook on every parameter tells the session that its gradient is complete, while backward is still
running; `step()` waits for the commit and then lets the wrapped optimizer update the weights.

Momentum correction. Sparse tensors send what has gathered in the residual, so a velocity made from what
arrives would come late and in lumps. The velocity therefore lives below the selection, in the library,
and the optimizer's own momentum is 0. For tensors on the dense route the same velocity, u = m*u + average,
is kept here, so that both routes follow one rule.
"""

import contextlib
import warnings

import torch

from .errors import InvalidError, RefusedError
from .gradients import Gradients


class DistributedOptimizer(torch.optim.Optimizer):
    """Looks and behaves like the optimizer it wraps; learning rate schedulers may hold it.

    `named_parameters`: as of the model, the same order on every rank. `route`: auto, dense or sparse;
    `density`: share of the entries of a sparse tensor that a step sends. `missing`: what to do with a
    parameter that got no gradient in a step: "error" names it, "zero" sends zeros, "skip" leaves it
    alone if no rank has a gradient for it.

    `weight`: samples of this rank in the step, to be set before backward; the average is weighted by it.
    With 0 the backward may be left out. Gradients of several passes (`backward_passes_per_step`) are
    summed as PyTorch does; divide the loss if you want their mean.
    """

    def __init__(self, job, optimizer, named_parameters, density=0.01, momentum_correction=0.9,
                 route="auto", backward_passes_per_step=1, missing="error"):
        if missing not in ("error", "zero", "skip"):
            raise InvalidError(f'missing="{missing}": choose error, zero or skip')
        if backward_passes_per_step < 1:
            raise InvalidError("backward_passes_per_step must be at least 1")
        if job.optimizers:
            raise RefusedError("this process has a DistributedOptimizer already; one wraps all parameters "
                               "(use parameter groups for different settings)")
        _check_momentum(optimizer, momentum_correction)
        trained = _trained(optimizer, named_parameters)
        job.set_momentum_correction(momentum_correction)
        self.inner = optimizer
        self.weight = 1.0
        self.missing = missing
        self.momentum_correction = momentum_correction
        self.session = job.session
        self.last = None  # the StepResult of the last step
        self._counts = [0.0, 0.0, 0.0, 0.0]
        self._synchronized = False
        self._absent = []
        self._gradients = Gradients(self, trained, route, density, backward_passes_per_step)
        job.optimizers += 1
        self.session.agree()
        sparse = self.session.sparse_names()
        self.velocity = {name: torch.zeros_like(parameter)
                         for name, parameter in self._gradients.named.items()
                         if momentum_correction and name not in sparse}

    # ---- what a torch optimizer has ----

    @property
    def param_groups(self):
        return self.inner.param_groups

    @property
    def state(self):
        return self.inner.state

    @property
    def defaults(self):
        return self.inner.defaults

    def __repr__(self):
        return f"DistributedOptimizer({self.inner!r})"

    def add_param_group(self, group):
        raise RefusedError("parameters cannot be added after the ranks agreed on the plan; make the "
                           "DistributedOptimizer when all parameter groups are there")

    def zero_grad(self, set_to_none=False):
        """Zeroes in place by default: gradients that stay where they are need no rebinding."""
        self._gradients.refuse_if_running("zero_grad()")
        self.inner.zero_grad(set_to_none=set_to_none)

    def step(self, closure=None):
        """Exchanges (unless `synchronize` did), then updates. A step that some rank had to skip for a
        NaN or Inf changes nothing on any rank; `last.skipped` says so. An error changes nothing."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._synchronized:
            self.synchronize()
        self._synchronized = False
        if not self.last.skipped:
            with self._gradients.hidden(self._absent):
                self.inner.step()
        return loss

    def synchronize(self):
        """Waits until the gradients hold the average of all ranks: between backward and step, for
        clipping by the global norm. `step` then does not exchange again."""
        if self._synchronized:
            return self.last
        self._absent = self._gradients.complete(self.weight)
        self.last = self.session.finish_step()
        self._gradients.finished()
        for i, count in enumerate((1, self.last.dense_bytes, self.last.sparse_bytes,
                                   self.last.dense_equivalent_bytes)):
            self._counts[i] += count
        if not self.last.skipped:
            self._apply_velocity()
        self._synchronized = True
        return self.last

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Horovod's name for a step after synchronize(); here step() knows."""
        if not self._synchronized:
            raise RefusedError("skip_synchronize() without synchronize() before it")
        yield

    @contextlib.contextmanager
    def no_sync(self):
        """Backward passes in it gather gradients locally and do not count."""
        self._gradients.quiet = True
        try:
            yield
        finally:
            self._gradients.quiet = False

    def state_dict(self):
        """The wrapped optimizer's, and under "ringwood" the velocity of the dense tensors. (Residuals
        and velocities of sparse tensors differ from rank to rank: they are in Ringwood's checkpoints.)"""
        return {**self.inner.state_dict(), "ringwood": {"velocity": dict(self.velocity)}}

    def load_state_dict(self, state):
        state = dict(state)
        velocity = state.pop("ringwood", {}).get("velocity", {})
        if velocity and set(velocity) != set(self.velocity):
            raise InvalidError("the saved velocity belongs to other dense tensors: "
                               f"{sorted(set(velocity) ^ set(self.velocity))}")
        self.inner.load_state_dict(state)
        for name, values in velocity.items():
            self.velocity[name].copy_(values)

    def traffic(self):
        """[steps, dense bytes, sparse bytes, bytes if all were dense], sent by this rank so far."""
        return list(self._counts)

    # ---- inside ----

    @torch.no_grad()
    def _apply_velocity(self):
        if not self.velocity:
            return
        gradients = [self._gradients.named[name].grad for name in self.velocity]
        velocities = list(self.velocity.values())
        torch._foreach_mul_(velocities, self.momentum_correction)
        torch._foreach_add_(velocities, gradients)
        torch._foreach_copy_(gradients, velocities)


def _check_momentum(optimizer, momentum_correction):
    if not 0 <= momentum_correction < 1:
        raise InvalidError(f"momentum_correction={momentum_correction} must lie in [0, 1)")
    if not momentum_correction:
        return
    for group in optimizer.param_groups:
        if group.get("momentum"):
            raise InvalidError(
                f"the optimizer has momentum={group['momentum']} and momentum_correction="
                f"{momentum_correction} would apply it twice: the velocity lives in Ringwood, so make the "
                "optimizer with momentum=0 (or pass momentum_correction=0)")
        if "betas" in group:
            warnings.warn(f"{type(optimizer).__name__} averages gradients itself; momentum_correction="
                          f"{momentum_correction} comes on top. Pass momentum_correction=0 if you do not "
                          "want both", stacklevel=4)
            return


def _trained(optimizer, named_parameters):
    """Name -> parameter in the order given; every parameter that the optimizer updates has a name."""
    named = {}
    for name, parameter in named_parameters:
        if name in named:
            raise InvalidError(f'named_parameters has "{name}" twice')
        if parameter.requires_grad:
            named[name] = parameter
    known = {id(parameter) for parameter in named.values()}
    updated = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
    if updated - known:
        raise InvalidError(f"{len(updated - known)} parameter(s) of the optimizer are not in "
                           "named_parameters; pass model.named_parameters()")
    return {name: parameter for name, parameter in named.items() if id(parameter) in updated}
