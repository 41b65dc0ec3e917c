"""Calls the owners of a backward pass's gradients when the pass ends."""

import functools

import torch

REMEMBERED = 64  # passes whose end is awaited; more than one only where one runs inside another, or has failed


class Backward:
    """Calls its members in the order in which they joined: the same on every rank, whichever gradient came first."""

    def __init__(self):
        self._members = []
        self._parts = {}  # autograd's number of a pass -> the members that take part

    def join(self, member):
        self._members.append(member)

    def leave(self):
        self._members.clear()

    def take_part(self, member):
        """From a hook of the pass; `member.backward_ended()` is called when all its gradients are there."""
        number = torch._C._current_graph_task_id()
        if number not in self._parts:
            while len(self._parts) >= REMEMBERED:
                del self._parts[next(iter(self._parts))]
            self._parts[number] = set()
            torch.autograd.Variable._execution_engine.queue_callback(functools.partial(self._ended, number))
        self._parts[number].add(member)

    def unfinished(self, member):
        """Whether a pass with `member` began and has not ended: it failed, or the running one is inside it."""
        running = torch._C._current_graph_task_id()
        return any(member in part for number, part in self._parts.items() if number != running)

    def forget(self, member):
        """The gradients of passes that failed were dropped or used. In a pass, which may be inside another, it does
        nothing."""
        if torch._C._current_graph_task_id() == -1:
            for part in self._parts.values():
                part.discard(member)

    def _ended(self, number):
        part = self._parts.pop(number, ())
        for member in self._members:
            if member in part:
                member.backward_ended()
