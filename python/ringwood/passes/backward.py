"""Calls the owners of a backward pass's gradients when the pass ends, or has failed."""

import sys

import torch

from ..errors import RefusedError


class Backward:
    """Calls its members in the order in which they joined: the same on every rank, whichever gradient came first."""

    def __init__(self):
        self._members = []
        self._parts = {}  # autograd's number of a pass that runs -> the members that take part

    def join(self, member):
        self._members.append(member)

    def leave(self):
        self._members.clear()

    def take_part(self, member):
        """From a hook of the pass; `member.backward_ended()` is called when all its gradients are there, and
        `member.backward_failed()` when an exception has ended it before."""
        number = torch._C._current_graph_task_id()
        if number not in self._parts:
            _refuse_compiled()
            self._parts[number] = set()
            torch.autograd.Variable._execution_engine.queue_callback(_End(self, number))
        self._parts[number].add(member)

    def inside(self, member):
        """Whether the running pass is inside another one with `member`."""
        running = torch._C._current_graph_task_id()
        return any(member in part for number, part in self._parts.items() if number != running)

    def ended(self, number):
        for member in self._of(number):
            member.backward_ended()

    def gone(self, number):
        for member in self._of(number):
            member.backward_failed()

    def _of(self, number):
        part = self._parts.pop(number, ())
        return [member for member in self._members if member in part]


def _refuse_compiled():
    """Compiled autograd calls none of what a hook queues."""
    module = sys.modules.get("torch._dynamo.compiled_autograd")
    if getattr(module, "in_compiled_autograd_region", getattr(module, "compiled_autograd_enabled", False)):
        raise RefusedError("compiled autograd does not tell when a backward pass is over, which DistributedOptimizer has to know: "
                           "set torch._dynamo.config.compiled_autograd = False. Forward and backward of a model under "
                           "torch.compile are compiled without it too")


class _End:
    """What a pass calls when all its gradients are there. The pass alone holds it: where that failed it is let go."""

    def __init__(self, backward, number):
        self._backward, self._number = backward, number

    def __call__(self):
        self._backward.ended(self._number)

    def __del__(self):
        self._backward.gone(self._number)
