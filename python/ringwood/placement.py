"""Where CUDA gradients are exchanged: where they are, or staged through host memory.

All ranks do the same: one that has to stage makes all of them stage, and rank 0 says why.
"""

import sys

import numpy as np
import torch

from .agreement import broadcast_bytes, repeated
from .errors import InvalidError, RefusedError
from .stream import ExchangeStream, NoStream

CHOICES = ("auto", "in_place", "stage")
IN_PLACE = "I rank 0: CUDA gradients are exchanged where they are\n"
STAGED = "I rank 0: CUDA gradients are staged through host memory: {}\n"


def host_only(selection, settings):
    """Why sparse tensors stay in host memory, or "". `selection`: the session's chunk, method and clip norm;
    `settings`: a (route, density, momentum, clip norm) a tensor."""
    chunk, method, session_norm = selection
    sparse = [norm for route, _, _, norm in settings if route != "dense"]
    if sparse and chunk:
        return f"sparse_chunk={chunk}"
    if sparse and method != "exact":
        return f'sparse_method="{method}"'
    if any(session_norm if norm is None else norm for norm in sparse):
        return "clip_norm"
    return ""


def why_staged(choice, devices, selecting, missing):
    """A reason, or "" where the gradients can be exchanged in place. `devices`: all that hold one, as PyTorch
    names them; `selecting`: of host_only; `missing`: what stands against it, or ""."""
    if choice == "stage":
        return "as asked for (device_tensors, RINGWOOD_DEVICE_TENSORS)"
    if len(devices) > 1 or not all(device.startswith("cuda") for device in devices):
        return f"the gradients of a rank lie on {', '.join(sorted(devices))}, not all on one CUDA device"
    if selecting:
        return f"with {selecting} sparse tensors are selected in host memory"
    return missing


def exchange_stream(session, choice, parameters, settings):
    """What to exchange `parameters`' gradients with: an ExchangeStream, or NoStream: the session reads host
    memory only. `settings` as in host_only. Every rank calls it, and all get the same kind."""
    if choice not in CHOICES:
        raise InvalidError(f'device_tensors="{choice}": choose {", ".join(CHOICES)}')
    devices = {str(parameter.device) for parameter in parameters}
    cuda = [device for device in devices if device.startswith("cuda")]
    some = bool(cuda)
    missing = session.device_support(torch.device(cuda[0]).index) if some else ""
    if not missing and session.logged:
        missing = "the update log has no sums of tensors on a device; without --update-log they are not staged"
    reason = why_staged(choice, devices, host_only(session.selection, settings), missing)
    some, reason = repeated(session, lambda: _agreed(session, some, reason)) or (some, reason)
    if not some:
        return NoStream()
    if reason and choice == "in_place" and not session.receiving:
        raise RefusedError(f'device_tensors="in_place" cannot be: {reason}')
    if session.rank == 0:
        sys.stderr.write(STAGED.format(reason) if reason else IN_PLACE)
    return NoStream() if reason else ExchangeStream(torch.device(devices.pop()))


def _agreed(session, some, reason):
    """(whether a rank has a tensor on a device, why one has to stage), alike on all ranks."""
    # The first rank that has to stage says why: the largest of `world - rank`, 0 where nobody has to.
    staging = session.world - session.rank if reason else 0
    some, staging = session.allreduce(np.array([some, staging], np.int64), op="max").tolist()
    if some and staging:
        reason = broadcast_bytes(session, reason.encode(), session.world - staging).decode()
    return some, reason
