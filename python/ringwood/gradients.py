"""Which gradients of the running step are complete, and when backward is.

The hooks run on autograd's thread, once a parameter and pass; they only enqueue, so that gradients travel
while backward is still running. When backward has made the last gradient of the step, it waits for the
commit before it returns: what the training loop sees are averages, which it may clip, log or change as it
likes. Where the session finds a gradient is its slot's business.
"""

import contextlib

import torch

from .device import Arrivals
from .errors import RefusedError
from .slot import settle
from .untraced import untraced

# After a backward pass that raised an exception, or an exchange that Ctrl-C has ended.
NO_WAY_BACK = ("some of its gradients are on their way to the other ranks, and cannot be called back. End this process: the "
               "job goes on from its last checkpoint. The only rank of a job, as in a notebook, may call rw.shutdown() and "
               "rw.init() instead, and make a new DistributedOptimizer")


class Gradients:
    """`slots`: registered in `session` (a Session or an AllReduced), in this order, and exchanged on `stream`.
    `owner`: the DistributedOptimizer, whose `exchange` the end of a backward calls."""

    def __init__(self, owner, session, backward, slots, stream, passes_per_step, scaler):
        self.slots = slots
        self.known = {id(slot.parameter) for slot in slots}
        self.on_device = any(slot.parameter.is_cuda for slot in slots)
        self.weight = None  # with which the last exchange began
        self._stream = stream
        self.quiet = False  # inside no_sync
        self._owner = owner
        self._session = session
        self._backward = backward
        self._arrivals = Arrivals(session)
        self._scaler = scaler
        self._scale = 1.0  # the factor in this step's gradients
        self._passes_per_step = passes_per_step
        self._touched = [False] * len(slots)  # by any pass since zero_grad or step
        self._running = False  # between the first ready and the commit
        self._failed = ""      # what did between them: a backward pass, an exchange
        self._left = False
        self._start_over()
        self._hooks = [slot.parameter.register_post_accumulate_grad_hook(self._hook(index, slot))
                       for index, slot in enumerate(slots)]
        backward.join(self)

    def leave(self):
        """Removes the hooks: backward is as without Ringwood. The session of the slots is closed next."""
        self._left = True
        while self._hooks:
            self._hooks.pop().remove()

    def _start_over(self):
        """Resets the counters of an exchange."""
        self._backwards = 0
        self._passes = [0] * len(self.slots)
        self._taken = [None] * len(self.slots)  # (gradient, its version) when it was announced

    def _hook(self, index, slot):
        touched, owner = self._touched, self._owner

        @untraced
        def gradient_accumulated(parameter):
            touched[index] = True
            if owner.averaged:
                owner.average_again()
            if self.quiet:
                return
            self._backward.take_part(self)
            self._passes[index] += 1
            if self._taken[index] is not None:
                self._refuse_excess(index)
            if self._passes[index] >= self._passes_per_step:
                if not self._running:
                    self._begin()
                self._announce(index, slot)

        return gradient_accumulated

    def backward_ended(self):
        """The step is complete when all gradients are announced, or with the last of the passes that were promised: if
        by then each parameter has a gradient, or need not have one. It is over where a hook has called step()."""
        if not any(self._passes):
            return
        self._backwards += 1
        last = self._backwards >= self._passes_per_step
        if self._owner.missing == "error":
            complete = all(taken is not None for taken in self._taken) or (last and all(self._passes))
        else:
            complete = last
        if complete:
            self._owner.exchange()

    def backward_failed(self):
        """What of its gradients was announced is on its way; where nothing was, it can be dropped as without Ringwood."""
        if self._running:
            self._failed = self._failed or "a backward pass that failed"

    def exchange_interrupted(self):
        """By an exception that is none of the exchange's, such as KeyboardInterrupt: the session may have done it."""
        if self._running:
            self._failed = self._failed or "an exchange that was interrupted"

    def _refuse_failed(self, what):
        if self._failed:
            raise RefusedError(f"{what} after {self._failed}: {NO_WAY_BACK}")

    def _announce(self, index, slot):
        ready = slot.take(self._session, _dense(slot.parameter), self._scale)
        gradient = slot.parameter.grad
        self._taken[index] = (gradient, gradient._version)
        if ready:
            self._session.ready(index)
        else:
            self._arrivals.add(index, slot)

    def _refuse_excess(self, index):
        what = f'"{self.slots[index].name}" got another gradient while the one before is on its way to the other ranks, '
        if self._failed:
            raise RefusedError(f"{what}after {self._failed}: {NO_WAY_BACK}")
        if self._backward.inside(self):
            raise RefusedError(f"{what}and this backward pass is inside the one that made it, as with torch.utils.checkpoint: "
                               "pass use_reentrant=False")
        raise RefusedError(
            f"{what}because this step's backward passes reach different parameters: put all but the last into "
            "optimizer.no_sync(), or add up their losses and call backward once")

    def _begin(self):
        if self._running:
            return
        self._owner.weigh()
        self.weight = self._owner.weight
        self._session.begin_step(self.weight, self._owner.passes + 1)
        self._running = True
        self.take_scale()

    def take_scale(self):
        """The factor that the scaler divides averages by is its present one."""
        if self._scaler is not None:
            self._scale = self._scaler.get_scale()

    @property
    def running(self):
        """Whether gradients of a step are on their way."""
        return self._running

    def refuse_if_running(self, what):
        if not self._running:
            return
        self._refuse_failed(what)
        raise RefusedError(f"{what} between backward and step(): the gradients are on their way, and wait for those of "
                           f"{self.names(taken is None for taken in self._taken)}: call step() first, or a backward "
                           "that reaches these")

    def let_go(self):
        """The parameters' gradients are gone."""
        for slot in self.slots:
            if slot.parameter.grad is None:
                slot.let_go(self._session)

    def hold(self):
        """Before averages come that no backward made room for."""
        for slot in self.slots:
            slot.hold(self._session)

    def forget(self):
        """The accumulated gradients were zeroed or used."""
        self._start_over()
        self._touched[:] = [False] * len(self.slots)

    def took_averages(self, absent):
        """Averages came, also of gradients that only other ranks had, and are exchanged again with what is added to
        them. `absent`: what `finished` returned."""
        for index in set(range(len(self.slots))).difference(absent):
            self._touched[index] = True

    def complete(self, weight):
        """Announces the gradients that the hooks did not. Returns the indices that no rank has a gradient for, if the
        policy is to skip them."""
        if self._left:
            raise RefusedError("the session of this DistributedOptimizer was closed, by rw.shutdown() or by the end of the "
                               "process groups: after rw.init() make a new DistributedOptimizer, of the .inner of this one")
        self._refuse_failed("an exchange")
        gradients = [slot.parameter.grad for slot in self.slots]
        present = [touched and gradient is not None for touched, gradient in zip(self._touched, gradients)]
        if weight and not all(present):
            self._refuse_missing([not there for there in present])
        self._refuse_changed(gradients)
        self._begin()
        self._arrivals.wait()
        for index, slot in enumerate(self.slots):
            if self._taken[index] is not None:
                continue  # its hook announced it
            if present[index]:
                self._announce(index, slot)
            else:
                slot.clear(self._session)
                self._session.ready(index)
        self._arrivals.wait()
        if self._owner.missing != "skip":
            return []
        anywhere = torch.tensor(present, dtype=torch.uint8, device="cpu")
        self._session.allreduce(anywhere, op="max")
        return [i for i in range(len(self.slots)) if not anywhere[i]]

    def _refuse_missing(self, missing):
        if all(missing):
            raise RefusedError("step() without backward(): none has reached a parameter of the optimizer since the last "
                               "step. A rank without samples sets optimizer.weight = 0; parameters that were replaced, as "
                               "by load_state_dict(assign=True), need an optimizer that has them; gradients that "
                               "something else made come by torch.autograd.backward(parameters, gradients)")
        if self._owner.missing == "error":
            raise RefusedError(f"{sum(missing)} parameter(s) got no gradient in this step: {self.names(missing)}. Pass "
                               'missing="zero" or "skip" to DistributedOptimizer if that is intended')

    def _refuse_changed(self, gradients):
        """Refuses those of the parameters' gradients that were changed after they were announced: they are being read."""
        changed = [taken is not None and (gradient is not taken[0] or gradient._version != taken[1])
                   for gradient, taken in zip(gradients, self._taken)]
        if any(changed):
            raise RefusedError(
                f"{sum(changed)} gradient(s) were changed while they were on their way to the other ranks: "
                f"{self.names(changed)}. Change gradients after the backward that makes the last one of the "
                "step, or after optimizer.synchronize()")

    def names(self, chosen):
        names = [slot.name for slot, wanted in zip(self.slots, chosen) if wanted]
        return ", ".join(names[:10]) + (", …" if len(names) > 10 else "")

    def finished(self, skipped, velocity, absent):
        """After the commit: every parameter's gradient becomes its average, or its velocity. `absent`: what `complete`
        returned. Returns those of them that nothing came of, the same on all ranks: of a residual or a velocity, which
        earlier steps left, an average comes though no rank has a gradient."""
        self._running = False
        self._start_over()
        settle(self.slots, self._stream, velocity, skipped, self._scale)
        if skipped or not absent:
            return absent
        came = torch.stack([self.slots[index].buffer.any() for index in absent]).tolist()
        return [index for index, some in zip(absent, came) if not some]

    @staticmethod
    @contextlib.contextmanager
    def hidden(parameters):
        """Removes their gradients, so that the optimizer leaves them alone."""
        held = [(parameter, parameter.grad) for parameter in parameters]
        for parameter, _ in held:
            parameter.grad = None
        try:
            yield
        finally:
            for parameter, gradient in held:
                parameter.grad = gradient


def _dense(parameter):
    """The gradient; an Embedding(sparse=True) makes a sparse one, which is made dense."""
    gradient = parameter.grad
    if gradient.is_sparse:
        gradient = parameter.grad = gradient.to_dense()
    return gradient
