"""Momentum correction of dense tensors, and what a new plan does to it."""

import sys
from types import SimpleNamespace

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
torch = pytest.importorskip("torch")
velocity = pytest.importorskip("ringwood.velocity")


def test_velocities_follow_the_routes_of_the_plan():
    routes = {"a": "ring", "b": "tree", "plain": "ring"}
    slots = {name: SimpleNamespace(name=name, buffer=torch.zeros(2)) for name in routes}
    momenta = {"a": 0.5, "b": 0.25, "plain": 0}
    kept = velocity.Velocity(SimpleNamespace(route=routes.get), slots.values(), momenta)

    def step():
        for slot in slots.values():
            slot.buffer.fill_(1)
        kept.replace()
        return {name: slot.buffer[0].item() for name, slot in slots.items()}

    assert step() == {"a": 1, "b": 1, "plain": 1}
    assert step() == {"a": 1.5, "b": 1, "plain": 1}
    routes["b"] = "ring"  # starts with the velocity 0
    assert step() == {"a": 1.75, "b": 1, "plain": 1}
    routes["a"] = "tree"  # from now on the library's
    assert step() == {"a": 1, "b": 1.25, "plain": 1}
    saved = {name: values.clone() for name, values in kept.of.items()}
    assert set(saved) == {"b"}
    step()
    kept.load(saved)
    assert step()["b"] == 1 + 0.25 * 1.25
    with pytest.raises(Exception, match="stranger"):
        kept.load({"stranger": saved["b"]})
