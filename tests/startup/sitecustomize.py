"""Spares a test's Python processes work that no test is about: Python imports this first, where it is on PYTHONPATH.

A rank that trains one step with PyTorch takes 3 s of a core and more, of which 1.5 s go into importing the compiler
(torch._dynamo) and 0.6 s into the collection of garbage at exit. Hundreds of ranks start in the tests; most of them
as forks of a process that has imported all of that (warm_parent.py).
"""

import atexit
import functools
import gc
import importlib.abc
import importlib.machinery
import sys


def without_compiler(disable_dynamo):
    """torch._compile._disable_dynamo, which every optimizer passes, for processes that compile nothing: what was never
    imported traces no function. Once somebody imports the compiler it is PyTorch's own."""
    def decorate(function=None, recursive=True):
        if function is None:
            return functools.partial(decorate, recursive=recursive)
        disabled = disable_dynamo(function, recursive)

        @functools.wraps(function)
        def call(*args, **kwargs):
            return (disabled if "torch._dynamo" in sys.modules else function)(*args, **kwargs)

        return call

    return decorate


def without_graph_breaks(use_grad_for_differentiable):
    """torch.optim.optimizer's decorator of every step, which imports the compiler only to break its graph."""
    def decorate(function):
        told = use_grad_for_differentiable(function)

        @functools.wraps(function)
        def call(self, *args, **kwargs):
            if "torch._dynamo" in sys.modules:
                return told(self, *args, **kwargs)
            with sys.modules["torch"].set_grad_enabled(self.defaults["differentiable"]):
                return function(self, *args, **kwargs)

        return call

    return decorate


CHANGED = {"torch._compile": ("_disable_dynamo", without_compiler),
           "torch.optim.optimizer": ("_use_grad_for_differentiable", without_graph_breaks)}


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and loads the modules of CHANGED as always, then changes their decorator."""

    def __init__(self):
        self._loaders = {}

    def find_spec(self, name, path, target=None):
        if name not in CHANGED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        self._loaders[name], spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self._loaders[module.__name__].exec_module(module)
        name, change = CHANGED[module.__name__]
        setattr(module, name, change(getattr(module, name)))


sys.meta_path.insert(0, Changed())
gc.set_threshold(50_000)  # imports make objects that stay
atexit.register(gc.freeze)  # all end with the process
