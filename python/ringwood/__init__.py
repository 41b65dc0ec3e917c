"""Ringwood: gradient exchange for clusters whose network is slower than their GPUs.

`ringwood.Session` works over NumPy arrays and raw pointers; `ringwood.torch` is the layer for PyTorch.
`ringwood.pull` gets the newest committed weights of a job into a process that is no rank of it.
"""

from .errors import (AbortedError, CorruptError, DeadlineError, DeniedError, ExhaustedError, ExistsError,
                     ForkedError, InternalError, InvalidError, JobEndedError, NotFoundError, RefusedError,
                     RingwoodError, UnavailableError)
from .sampler import Sampler
from .session import Session, StepResult
from .weights import pull

__all__ = ["Session", "StepResult", "Sampler", "pull", "RingwoodError", "InvalidError", "NotFoundError", "ExistsError",
           "RefusedError", "ExhaustedError", "UnavailableError", "DeadlineError", "AbortedError",
           "CorruptError", "DeniedError", "InternalError", "ForkedError", "JobEndedError"]


def __getattr__(name):
    if name == "__version__":  # the loaded library's: the version stands in one place
        from .library import load
        return load().version
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
