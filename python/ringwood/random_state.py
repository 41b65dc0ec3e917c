"""The random generators of this process: PyTorch's, NumPy's and Python's, as bytes; and what iterations take from them."""

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


class Seeds:
    """Has every iteration over a sampler take one number from PyTorch's generator, as a DataLoader does that begins with the
    seed of its workers. One with persistent_workers takes none from its second iteration on, which in a job that was
    resumed is the first."""

    def __init__(self):
        self._before = None

    def made(self):
        """An iterator. A DataLoader makes two before it asks for a batch."""
        if self._before is None:
            self._before = torch.get_rng_state()

    def begun(self):
        """Its first batch is asked for."""
        before, self._before = self._before, None
        if before is not None and torch.equal(before, torch.get_rng_state()):
            torch.empty((), dtype=torch.int64).random_()


def _words(saved):
    """Of a list, as older versions have saved it, or of hexadecimal digits."""
    return np.array(saved, np.uint32) if isinstance(saved, list) else np.frombuffer(bytes.fromhex(saved), np.uint32)


def _hex(state):
    return state.numpy().tobytes().hex()


def _from_hex(text):
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)
