"""Which gradients of the running step are complete, and where they lie.

The hooks run on autograd's thread, once a parameter and pass; they only enqueue. Each gradient has a
buffer that the session knows; autograd adds into it while it stays `parameter.grad`. Where the training
loop replaces it (zero_grad(set_to_none=True)), the new one is bound before it is announced.
"""

import contextlib

import torch

from .errors import InvalidError, RefusedError


class Gradients:
    def __init__(self, owner, named, route, density, passes_per_step):
        self.named = named
        self.quiet = False  # inside no_sync
        self._owner = owner
        self._session = owner.session
        self._names = list(named)
        self._parameters = list(named.values())
        self._passes_per_step = passes_per_step
        self._passes = [0] * len(named)
        self._running = False  # between the first ready and the commit
        self._buffers = []     # kept alive: the session reads and writes them
        self._addresses = []
        self._hooks = []
        for index, (name, parameter) in enumerate(named.items()):
            self._adopt(index, name, parameter, route, density)

    def _adopt(self, index, name, parameter, route, density):
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            raise InvalidError(f'the parameter "{name}" is {parameter.dtype} on {parameter.device}; '
                               "gradients must be float32 on the CPU")
        if not parameter.is_contiguous():
            raise InvalidError(f'the parameter "{name}" is not contiguous (strides {parameter.stride()});'
                               " call .contiguous() on it before making the optimizer")
        if parameter.grad is None or not parameter.grad.is_contiguous():
            parameter.grad = torch.zeros_like(parameter)
        # The id counts from 0 in order of registration, so it equals `index`.
        identity = self._session.register(name, parameter.grad, route, density)
        if identity != index:
            raise RefusedError("tensors were registered in the session before the DistributedOptimizer")
        self._buffers.append(parameter.grad)
        self._addresses.append(parameter.grad.data_ptr())
        self._hooks.append(parameter.register_post_accumulate_grad_hook(self._hook(index)))

    def _hook(self, index):
        passes, addresses, session = self._passes, self._addresses, self._session

        def gradient_accumulated(parameter):
            if self.quiet:
                return
            passes[index] += 1
            if passes[index] != self._passes_per_step:
                self._refuse_excess(index)
                return
            if not self._running:
                self._begin()
            if parameter.grad.data_ptr() != addresses[index]:
                self._rebind(index, parameter)
            session.ready(index)

        return gradient_accumulated

    def _refuse_excess(self, index):
        if self._passes[index] > self._passes_per_step:
            raise RefusedError(
                f'"{self._names[index]}" got a gradient for the {self._passes[index]}th time in this step: '
                "call step() after every backward, or say backward_passes_per_step")

    def _begin(self):
        self._session.begin_step(self._owner.weight)
        self._running = True

    def _rebind(self, index, parameter):
        name = self._names[index]
        if not parameter.grad.is_contiguous():
            parameter.grad = parameter.grad.contiguous()
        self._session.rebind(name, parameter.grad)
        self._buffers[index] = parameter.grad
        self._addresses[index] = parameter.grad.data_ptr()

    def refuse_if_running(self, what):
        if self._running:
            raise RefusedError(f"{what} between backward and step(): the gradients are on their way")

    def complete(self, weight):
        """Announces what backward did not reach. Returns the indices that no rank has a gradient for,
        if the policy is to skip them."""
        lacking = [i for i, count in enumerate(self._passes) if count < self._passes_per_step]
        policy = self._owner.missing
        if lacking and weight and len(lacking) == len(self._names) and not any(self._passes):
            raise RefusedError("step() without backward(): no parameter has a gradient (a rank without "
                               "samples sets optimizer.weight = 0)")
        if lacking and weight and policy == "error":
            names = ", ".join(self._names[i] for i in lacking[:10])
            raise RefusedError(f"{len(lacking)} parameter(s) got no gradient in this step: {names}"
                               f"{', …' if len(lacking) > 10 else ''}. Pass missing=\"zero\" or \"skip\" "
                               "to DistributedOptimizer if that is intended")
        if not self._running:
            self._begin()
        for index in lacking:
            if self._passes[index] == 0:
                self._buffers[index].zero_()
            self._session.ready(index)
        if policy != "skip":
            return []
        present = torch.ones(len(self._names), dtype=torch.uint8)
        present[lacking] = 0
        self._session.allreduce(present, op="max")
        return [i for i in range(len(self._names)) if not present[i]]

    def finished(self):
        """The commit is through: every buffer, now the average, is its parameter's gradient."""
        self._running = False
        for index, parameter in enumerate(self._parameters):
            self._passes[index] = 0
            if parameter.grad is not self._buffers[index]:
                parameter.grad = self._buffers[index]

    @contextlib.contextmanager
    def hidden(self, indices):
        """Without these gradients, so that the optimizer leaves their parameters alone."""
        for index in indices:
            self._parameters[index].grad = None
        yield
        for index in indices:
            self._parameters[index].grad = self._buffers[index]
