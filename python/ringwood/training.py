"""Checkpoints of a training loop: everything that a bit-identical resume needs.

Shared by all ranks: weights, buffers, the optimizer's state, the cursor (where in the data we are).
Own of each rank: the states of the random generators. Residuals, velocities of sparse tensors and the
step are added by the library.
"""

import json
import random

import numpy as np
import torch

from .errors import InvalidError
from .state import flatten, gather_tensors, unflatten

SKELETON, TENSOR, RANDOM = "training/skeleton", "training/tensor/{}", "training/random"


def save(model, optimizer, cursor, every=1):
    """After step(): every `every` committed steps, copies the state and lets it travel to the store in
    the background. `cursor`: any dict of numbers and texts. Returns whether this step was saved."""
    session = optimizer.session
    if every < 1:
        raise InvalidError("save every: at least 1 step")
    if session.step % every:
        return False
    skeleton, tensors = flatten({"model": dict(model.state_dict()), "optimizer": optimizer.state_dict(),
                                 "cursor": cursor})
    shared = {SKELETON: skeleton}
    shared.update((TENSOR.format(i), tensor) for i, tensor in enumerate(tensors) if tensor.numel())
    session.checkpoint(shared=shared, own={RANDOM: _random_state()})
    return True


def resume(model, optimizer):
    """If the session started from a checkpoint: puts everything back and returns the cursor, else
    None. Call it after making the DistributedOptimizer."""
    session = optimizer.session
    if not session.resumed:
        return None
    skeleton = session.restore(SKELETON, "shared")
    tensors = gather_tensors(skeleton)
    for i, tensor in enumerate(tensors):
        if tensor.numel():
            content = bytearray(session.restore(TENSOR.format(i), "shared"))
            tensor.copy_(torch.frombuffer(content, dtype=tensor.dtype).view(tensor.shape))
    state = unflatten(skeleton, tensors)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    _set_random_state(session.restore(RANDOM, "own"))
    return state["cursor"]


def _random_state():
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return json.dumps({
        "torch": _hex(torch.get_rng_state()),
        "cuda": [_hex(state) for state in torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else [],
        "python": [version, list(words), gauss],
        "numpy": [name, keys.tolist(), position, has_gauss, cached]}).encode()


def _hex(state):
    return state.numpy().tobytes().hex()


def _from_hex(text):
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)


def _set_random_state(content):
    state = json.loads(content)
    torch.set_rng_state(_from_hex(state["torch"]))
    if state["cuda"]:
        torch.cuda.set_rng_state_all([_from_hex(each) for each in state["cuda"]])
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, cached))
