"""Ringwood: gradient exchange for clusters whose network is slower than their GPUs.

`ringwood.Session` works over NumPy arrays and raw pointers; `ringwood.torch` is the layer for PyTorch.
"""

from .errors import (AbortedError, CorruptError, DeadlineError, DeniedError, ExhaustedError, ExistsError,
                     ForkedError, InternalError, InvalidError, NotFoundError, RefusedError,
                     RingwoodError, UnavailableError)
from .sampler import Sampler
from .session import Session, StepResult

__all__ = ["Session", "StepResult", "Sampler", "RingwoodError", "InvalidError", "NotFoundError", "ExistsError",
           "RefusedError", "ExhaustedError", "UnavailableError", "DeadlineError", "AbortedError",
           "CorruptError", "DeniedError", "InternalError", "ForkedError"]
