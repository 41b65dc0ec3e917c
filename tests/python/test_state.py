"""Nested state as named tensors, and random generators as bytes: what checkpoints and ranks that come are given."""

import collections
import json
import random

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ringwood.errors import InvalidError  # noqa: E402
from ringwood.memory import type_of  # noqa: E402
from ringwood.random_state import random_state, set_random_state  # noqa: E402
from ringwood.state import flatten, state_items, state_of_items  # noqa: E402

MILESTONES = collections.Counter([3, 6, 6])  # as MultiStepLR has them
TREE = {"model": {"fc.weight": torch.arange(6.0).view(2, 3), "seen": torch.tensor(7), "none": torch.empty(0)},
        "optimizers": [{"state": {0: {"exp_avg": torch.ones(2, dtype=torch.bfloat16)}}, "lr": 0.5}],
        "cursor": ("a", None)}


def same(one, other):
    if torch.is_tensor(one):
        return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return one == other


def as_bytes(value):
    return value.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if torch.is_tensor(value) else value


def test_a_tensor_is_named_by_its_path_and_comes_back():
    items = state_items(TREE, "skeleton")
    assert list(items) == ["skeleton", "model/fc.weight", "model/seen", "model/none", "optimizers/0/state/0/exp_avg"]
    assert same(TREE, state_of_items(lambda name: as_bytes(items[name]), "skeleton"))
    assert list(state_items(TREE["model"], "own", "model"))[1] == "model/fc.weight"


def test_a_counter_stays_one():
    items = state_items({"milestones": MILESTONES}, "skeleton")
    back = state_of_items(items.__getitem__, "skeleton")["milestones"]
    assert isinstance(back, collections.Counter) and sorted(back.elements()) == [3, 6, 6]


def test_numbers_of_numpy_are_numbers():
    items = state_items({"best": np.float32(0.5), "rows": np.int64(3), "done": np.bool_(True)}, "skeleton")
    assert same({"best": 0.5, "rows": 3, "done": True}, state_of_items(items.__getitem__, "skeleton"))


def test_a_path_that_is_no_name_is_numbered():
    one = torch.ones(1)
    tree = {"a": {"b": one}, "a/b": one * 2, "c\n": one * 3, "d" * 300: one * 4, 1: one * 5, "1": one * 6}
    items = state_items(tree, "skeleton")
    assert list(items) == ["skeleton", "a/b", "tensor/1", "tensor/2", "tensor/3", "1", "tensor/5"]
    assert same(tree, state_of_items(lambda name: as_bytes(items[name]), "skeleton"))


def test_a_checkpoint_of_an_older_version_is_read():
    skeleton = b'{"dict": [["x", {"tensor": [0, "float32", [2]]}], ["y", {"tensor": [1, "int64", []]}]]}'
    items = {"skeleton": skeleton, 0: as_bytes(torch.tensor([1.0, 2.0])), 1: as_bytes(torch.tensor(3))}
    assert same({"x": torch.tensor([1.0, 2.0]), "y": torch.tensor(3)}, state_of_items(items.__getitem__, "skeleton"))


def test_what_is_no_state_is_named():
    with pytest.raises(InvalidError, match="state/model/hook is a function"):
        flatten({"model": {"hook": as_bytes}})
    with pytest.raises(InvalidError, match="state/1 has a key of type float"):
        flatten([{}, {0.5: 1}])


def test_types_are_those_of_safetensors():
    assert type_of(torch.zeros(2, 3, dtype=torch.bfloat16)) == ("BF16", (2, 3))
    assert type_of(torch.zeros((), dtype=torch.bool)) == ("BOOL", ())
    assert type_of(torch.zeros(3).numpy()) == ("F32", (3,))
    assert type_of(torch.zeros(3, dtype=torch.complex128)) == (None, ()), "it has no such type"
    assert type_of(b"abc") == (None, ())


def drawn():
    return random.gauss(0, 1), random.random(), np.random.randn(3).tolist(), torch.randn(3).tolist()


@pytest.mark.parametrize("former", [False, True], ids=["as it is saved", "with lists, as older versions saved it"])
def test_random_generators_go_on_where_they_were(former):
    drawn()  # an odd number of normals: one of Python's and of NumPy's is kept for the next call
    saved = random_state()
    if former:
        state = json.loads(saved)
        for name in ("python", "numpy"):
            state[name][1] = np.frombuffer(bytes.fromhex(state[name][1]), np.uint32).tolist()
        saved = json.dumps(state).encode()
    expected = drawn()
    set_random_state(saved)
    assert drawn() == expected


@pytest.mark.parametrize("devices", [0, 1])
def test_random_generators_of_devices_that_this_host_has_not_stay_in_the_checkpoint(monkeypatch, devices):
    """PyTorch takes the states of any number of devices, and fails when it starts CUDA: here as if it did at once."""
    state = json.loads(random_state())
    state["cuda"] = [torch.Generator().manual_seed(seed).get_state().numpy().tobytes().hex() for seed in (1, 2)]
    present = tuple(torch.Generator() for _ in range(devices))
    monkeypatch.setattr(torch.cuda, "default_generators", present)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    monkeypatch.setattr(torch.cuda.random, "_lazy_call", lambda call, **_: call())
    set_random_state(json.dumps(state).encode())
    assert [generator.initial_seed() for generator in present] == [1, 2][:devices]
