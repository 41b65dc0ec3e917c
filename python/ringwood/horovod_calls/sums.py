"""Sums in the place of averages: DistributedOptimizer(op=hvd.Sum)."""

import torch


class Sums:
    """What every gradient of `parameters` is multiplied by, once, when averages have come. Before another backward adds
    to it, it is an average again: that is what is exchanged."""

    def __init__(self, parameters):
        self._parameters = parameters
        self._factor, self._multiplied = 1.0, False
        # Before the gradient of a pass is added. torch.autograd.grad calls them too, and adds nothing: see `settle`.
        self._hooks = [parameter.register_hook(self._before_more) for parameter in parameters]

    def leave(self):
        while self._hooks:
            self._hooks.pop().remove()

    def averaged(self, total_weight):
        """Averages have come, over so many samples: ranks that have joined bring none."""
        self._factor, self._multiplied = total_weight, False
        self.settle()

    def settle(self):
        """Gradients of which averages have come are sums when it returns."""
        if not self._multiplied:
            self._multiply(self._factor)
            self._multiplied = True

    def _before_more(self, _):
        if self._multiplied:
            self._multiply(1 / self._factor)
            self._multiplied = False

    def used(self):
        """The step is over: what a backward adds to from now on is as it is."""
        self._factor, self._multiplied = 1.0, False

    @torch.no_grad()
    def _multiply(self, factor):
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        if factor != 1 and gradients:
            torch._foreach_mul_(gradients, factor)
