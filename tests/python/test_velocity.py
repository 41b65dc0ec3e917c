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


@pytest.mark.parametrize("maximize", [False, True])
def test_the_momentum_of_sgd_is_taken_over_for_sparse_tensors_only(maximize):
    """What arrives of the sparse one is a velocity already; with weight decay both must go SGD's way."""
    momentum, routes = 0.8, {"dense": "ring", "sparse": "tree"}
    plain = [torch.nn.Parameter(torch.ones(3)) for _ in routes]
    ours = {name: torch.nn.Parameter(torch.ones(3)) for name in routes}
    rule = {"lr": 0.1, "momentum": momentum, "weight_decay": 0.5, "maximize": maximize}
    reference, inner = torch.optim.SGD(plain, **rule), torch.optim.SGD(ours.values(), **rule)
    taken = velocity.TakenOver(SimpleNamespace(route=routes.get), inner, ours)
    arrives = torch.zeros(3)
    for step in range(5):
        gradient = torch.randn(3)
        arrives = momentum * arrives + gradient
        for parameter in plain:
            parameter.grad = gradient.clone()
        ours["dense"].grad, ours["sparse"].grad = gradient.clone(), arrives.clone()
        reference.step()
        inner.step()
        taken.after_step()
        for mine, theirs in zip(ours.values(), plain):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)


def recipe(kind, route=None, density=None, correction=None, **options):
    from ringwood.recipe import recipe_of
    optimizer = kind([torch.nn.Parameter(torch.zeros(2))], lr=0.1, **options)
    return recipe_of(route, density, correction, None, optimizer, optimizer.param_groups[0])


def test_without_options_the_exchange_is_dense_and_the_momentum_the_optimizers():
    for kind, options in ((torch.optim.SGD, {"momentum": 0.9, "nesterov": True}), (torch.optim.AdamW, {})):
        plain = recipe(kind, **options)
        assert plain.settings == ("dense", 0.01, 0, None) and not plain.velocity and not plain.taken_over


def test_int4_ends_at_half_of_the_largest_values_for_what_divides_by_second_moments():
    from ringwood.recipe import wire_reach_of
    parameters = [torch.nn.Parameter(torch.zeros(2))]
    for kind, reach in ((torch.optim.SGD, 1.0), (torch.optim.AdamW, 0.5), (torch.optim.Adam, 0.5), (torch.optim.RAdam, 0.5),
                        (torch.optim.Adagrad, 1.0)):
        assert wire_reach_of(kind(parameters, lr=0.1)) == reach, kind


def test_sparse_is_asked_for_and_the_correction_follows_the_optimizer():
    assert recipe(torch.optim.AdamW, density=0.1, correction=0).settings == ("auto", 0.1, 0, None)
    assert recipe(torch.optim.AdamW, route="sparse", correction=0).settings == ("sparse", 0.01, 0, None)
    assert recipe(torch.optim.AdamW, route="dense", density=0.1).settings[0] == "dense"
    taken = recipe(torch.optim.SGD, density=0.1, momentum=0.9)
    assert taken.settings == ("auto", 0.1, 0.9, None) and taken.taken_over and not taken.velocity
    left = recipe(torch.optim.SGD, density=0.1, momentum=0.9, correction=0)
    assert left.momentum == 0 and not left.taken_over
    own = recipe(torch.optim.SGD, density=0.1, correction=0.7)
    assert own.momentum == own.velocity == 0.7 and not own.taken_over
    for wrong in ({"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "dampening": 0.1}):
        with pytest.raises(ValueError, match="make the optimizer without it"):
            recipe(torch.optim.SGD, route="sparse", **wrong)
    with pytest.raises(ValueError, match="twice"):
        recipe(torch.optim.SGD, momentum=0.9, correction=0.9)


@pytest.mark.filterwarnings("error")
def test_adam_above_sparse_averages_is_warned_of_unless_it_is_meant():
    for wanted in ({"density": 0.1}, {"route": "sparse"}):
        with pytest.warns(UserWarning, match="AverageAdamW"):
            recipe(torch.optim.AdamW, **wanted)
    for meant in ({"density": 0.1, "correction": 0}, {"density": 0.1, "route": "dense"}, {}):
        recipe(torch.optim.AdamW, **meant)
    recipe(torch.optim.SGD, density=0.1, momentum=0.9)


def test_the_warning_about_adam_names_the_line_of_the_script():
    with pytest.warns(UserWarning, match="leave momentum_correction out") as told:
        recipe(torch.optim.Adam, correction=0.9)
    assert told[0].filename == __file__
