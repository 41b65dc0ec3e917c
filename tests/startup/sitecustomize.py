"""Spares a test's Python processes work that no test is about: Python imports this first, where it is on PYTHONPATH.

A rank that trains one step with PyTorch takes 2.6 s of a core, of which 0.9 s go into importing the compiler
(torch._dynamo) and 0.6 s into the collection of garbage at exit. Hundreds of ranks start in the tests.
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


class Compile(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds and loads torch._compile as always, then changes its decorator."""

    def find_spec(self, name, path, target=None):
        if name != "torch._compile":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        self.loader.exec_module(module)
        module._disable_dynamo = without_compiler(module._disable_dynamo)


sys.meta_path.insert(0, Compile())
gc.set_threshold(50_000)  # imports make objects that stay
atexit.register(gc.freeze)  # all end with the process
