"""The newest committed weights of a job, for a process that is no rank of it: an evaluator, an inference server,
a notebook. What `pull` returns is the state of one committed step; the training goes on meanwhile.

    step, weights = ringwood.pull("127.0.0.1:7070")            # NumPy arrays
    step, weights = ringwood.torch.pull("127.0.0.1:7070")      # tensors: model.load_state_dict(weights)
"""

import ctypes
import os
from ctypes import byref, c_char_p, c_int, c_void_p

import numpy as np

from .errors import InvalidError
from .interface.aside import aside
from .library import PulledItem, PulledState, PullOptions, load
from .memory import DTYPES

# What NumPy has no type for comes as its bits.
_AS_BITS = {"BF16": np.uint16, "F8_E4M3": np.uint8, "F8_E5M2": np.uint8, "F8_E8M0": np.uint8}


def pull(server=None, items=None, job=None, timeout=60.0, *, newest_stored=False, rank=None, token=None):
    """(step, name -> array): asks the ranks of the job at `server` ("host:port"; None: RINGWOOD_COORDINATOR) for a
    checkpoint of what they commit next, waits for it at most `timeout` seconds, and reads it.

    `items`: names of tensors, "*" and "?" as in a shell, one text or a list; None: the model's state_dict.
    `job`: as `ringwood checkpoint list` names it; None: the one that runs. `newest_stored`: the newest checkpoint
    that the store has; the ranks are not asked, and none need run. `rank`: takes what this rank has of its own, too
    (such as running statistics of BatchNorm that differ from rank to rank). `token`: the job's; None: RINGWOOD_TOKEN, or
    the file that RINGWOOD_TOKEN_FILE names.

    Ranks save where the trainer heeds `checkpoint_due`, as `save(every="auto")` does; where it saves by an interval
    of its own, the next one is waited for. bfloat16, which NumPy does not have, comes as uint16: its bits."""
    return pulled(_array, server, items, job, timeout, newest_stored=newest_stored, rank=rank, token=token)


def pulled(make, server, items, job, timeout, newest_stored=False, rank=None, token=None):
    """`make`: (name, dtype as safetensors names it, shape) -> (array or tensor, its address)."""
    found = aside(_Pulled, load(), _options(server, items, job, timeout, newest_stored, rank, token))
    state = found.state()
    return state.step, dict(aside(found.read, index, make) for index in range(state.items))


class _Pulled:
    """A checkpoint that is held until nobody has this any more: a read that Ctrl-C left behind ends first."""

    def __init__(self, library, options):
        self._library, self._handle = library, c_void_p()
        library.check(library.waits.ringwood_pull(byref(options), byref(self._handle)))

    def state(self):
        state = PulledState(size=ctypes.sizeof(PulledState))
        self._library.check(self._library.waits.ringwood_pulled_describe(self._handle, byref(state)))
        return state

    def read(self, index, make):
        """(name, what `make` made for it)."""
        item = PulledItem(size=ctypes.sizeof(PulledItem))
        self._library.check(self._library.waits.ringwood_pulled_describe_item(self._handle, index, byref(item)))
        name = item.name.decode()
        value, address = make(name, item.dtype.decode(), tuple(item.shape[:item.dimensions]))
        self._library.check(self._library.waits.ringwood_pulled_read(self._handle, index, address, item.bytes))
        return name, value

    def __del__(self):
        self._library.waits.ringwood_pulled_free(self._handle)


def _options(server, items, job, timeout, newest_stored, rank, token):
    names = [items] if isinstance(items, str) else list(items or ())
    if items is not None and not names:
        raise InvalidError("pull: an empty list of items takes nothing; None takes the model's state_dict")
    options = PullOptions(size=ctypes.sizeof(PullOptions))
    options.server = (server or os.environ.get("RINGWOOD_COORDINATOR", "")).encode()
    options.token = (os.environ.get("RINGWOOD_TOKEN", "") if token is None else token).encode()
    options.token_file = (os.environ.get("RINGWOOD_TOKEN_FILE", "") if token is None else "").encode()
    options.identity = os.environ.get("RINGWOOD_IDENTITY", "").encode()
    options.job = int(job, 16) if isinstance(job, str) else job or 0
    options.newest_stored = bool(newest_stored)
    options.timeout_seconds = timeout
    options.items = (c_char_p * len(names))(*(name.encode() for name in names))
    options.item_count = len(names)
    if rank is not None:
        options.rank = ctypes.pointer(c_int(rank))
    return options


def _array(name, dtype, shape):
    kind = _AS_BITS.get(dtype) or np.dtype(DTYPES[dtype] if dtype in DTYPES else _unknown(name, dtype))
    array = np.empty(shape, kind)
    return array, array.ctypes.data


def _unknown(name, dtype):
    raise InvalidError(f'the item "{name}" has elements of type {dtype}, which are unknown here: choose others by '
                       "items, or let `ringwood pull` write a file")


def tensor(name, dtype, shape):
    """As `pulled` wants it, of PyTorch."""
    import torch
    kind = getattr(torch, DTYPES.get(dtype, ""), None)
    if kind is None:
        _unknown(name, dtype)
    value = torch.empty(shape, dtype=kind, device="cpu")
    return value, value.data_ptr()
