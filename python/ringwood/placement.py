"""Where CUDA gradients are exchanged: in place, over NCCL, or staged through host memory.

All ranks do the same: one that has to stage makes all of them stage, and rank 0 says why.
"""

import sys

import numpy as np
import torch

from .agreement import broadcast_bytes
from .errors import InvalidError, RefusedError
from .stream import ExchangeStream, NoStream

CHOICES = ("auto", "in_place", "stage")
SPARSE_IN_PLACE = False  # whether the library exchanges sparse tensors on a device
IN_PLACE = "I rank 0: CUDA gradients are exchanged where they are, over NCCL\n"
STAGED = "I rank 0: CUDA gradients are staged through host memory: {}\n"


def why_staged(choice, devices, routes, missing):
    """A reason, or "" where the gradients can be exchanged in place. `devices`: all that hold one, as PyTorch
    names them; `routes`: as given; `missing`: what the library lacks for it, or ""."""
    if choice == "stage":
        return "as asked for (device_tensors, RINGWOOD_DEVICE_TENSORS)"
    if len(devices) > 1 or not all(device.startswith("cuda") for device in devices):
        return f"the gradients of a rank lie on {', '.join(sorted(devices))}, not all on one CUDA device"
    if not SPARSE_IN_PLACE and any(route != "dense" for route in routes):
        return "sparse tensors are exchanged in host memory (route=\"dense\" exchanges in place)"
    return missing


def exchange_stream(session, choice, parameters, routes):
    """What to exchange `parameters`' gradients with: an ExchangeStream, or NoStream: the session reads host
    memory only. Every rank calls it, and all get the same kind."""
    if choice not in CHOICES:
        raise InvalidError(f'device_tensors="{choice}": choose {", ".join(CHOICES)}')
    devices = {str(parameter.device) for parameter in parameters}
    some = any(device.startswith("cuda") for device in devices)
    reason = why_staged(choice, devices, routes, session.device_support() if some else "")
    # The first rank that has to stage says why: the largest of `world - rank`, 0 where nobody has to.
    staging = session.world - session.rank if reason else 0
    some, staging = session.allreduce(np.array([some, staging], np.int64), op="max")
    if not some:
        return NoStream()
    if staging:
        reason = broadcast_bytes(session, reason.encode(), session.world - int(staging)).decode()
        if choice == "in_place":
            raise RefusedError(f'device_tensors="in_place" cannot be: {reason}')
    if session.rank == 0:
        sys.stderr.write(STAGED.format(reason) if staging else IN_PLACE)
    return NoStream() if staging else ExchangeStream(torch.device(devices.pop()))
