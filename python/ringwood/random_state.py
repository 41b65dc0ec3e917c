"""The random generators of this process: PyTorch's, NumPy's and Python's, as bytes."""

import json
import random

import numpy as np
import torch


def random_state():
    version, words, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return json.dumps({
        "torch": _hex(torch.get_rng_state()),
        "cuda": [_hex(state) for state in torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else [],
        "python": [version, list(words), gauss],
        "numpy": [name, keys.tolist(), position, has_gauss, cached]}).encode()


def set_random_state(content):
    state = json.loads(content)
    torch.set_rng_state(_from_hex(state["torch"]))
    if state["cuda"]:
        torch.cuda.set_rng_state_all([_from_hex(each) for each in state["cuda"]])
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), position, has_gauss, cached))


def _hex(state):
    return state.numpy().tobytes().hex()


def _from_hex(text):
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
