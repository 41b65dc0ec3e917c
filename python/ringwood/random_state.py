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
        "python": [version, np.array(words, np.uint32).tobytes().hex(), gauss],
        "numpy": [name, keys.tobytes().hex(), position, has_gauss, cached]}).encode()


def set_random_state(content):
    state = json.loads(content)
    torch.set_rng_state(_from_hex(state["torch"]))
    for device, saved in enumerate(state["cuda"][:torch.cuda.device_count()]):  # this host may have fewer, or none
        torch.cuda.set_rng_state(_from_hex(saved), device)
    version, words, gauss = state["python"]
    random.setstate((version, tuple(_words(words).tolist()), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, _words(keys), position, has_gauss, cached))


def _words(saved):
    """Of a list, as older versions have saved it, or of hexadecimal digits."""
    return np.array(saved, np.uint32) if isinstance(saved, list) else np.frombuffer(bytes.fromhex(saved), np.uint32)


def _hex(state):
    return state.numpy().tobytes().hex()


def _from_hex(text):
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
