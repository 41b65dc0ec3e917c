"""AdamW whose second moment is that of the average of all ranks' gradients."""

import copy
import json
import pickle
import re
import sys

import pytest

from conftest import ROOT, run_job

sys.path.insert(0, str(ROOT / "python"))
torch = pytest.importorskip("torch")
from ringwood.errors import InvalidError  # noqa: E402
from ringwood.local.average_adamw import AverageAdamW  # noqa: E402

SETTINGS = {"lr": 0.01, "betas": (0.9, 0.95), "weight_decay": 0.1}


def parameters(seed=1):
    draw = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=draw)) for shape in ((7, 5), (5,))]


def train(mine, optimizer, steps, seed=2):
    draw = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for parameter in mine:
            parameter.grad = torch.randn(parameter.shape, generator=draw)
        optimizer.step()


def test_with_one_rank_it_is_adamw_and_either_loads_the_others_state():
    ours, theirs = parameters(), parameters()
    optimizer, peer = AverageAdamW(ours, lambda: 1, **SETTINGS), torch.optim.AdamW(theirs, **SETTINGS)
    train(ours, optimizer, 9)
    train(theirs, peer, 9)
    torch.testing.assert_close(ours, theirs)
    saved, state = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(peer.state_dict())
    peer.load_state_dict({**state, "state": saved["state"]})
    optimizer.load_state_dict({**saved, "state": state["state"]})
    train(ours, optimizer, 9, seed=3)
    train(theirs, peer, 9, seed=3)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("ranks", [2, 8])
def test_its_second_moment_is_that_of_the_average(ranks):
    """Gradients of mu + noise on each rank: the step is as large as Adam's on their average, in the mean of many entries."""
    entries, steps, draw = 20_000, 200, torch.Generator().manual_seed(5)
    mu = torch.linspace(0, 1, entries)
    mine, whole, alone = (torch.nn.Parameter(torch.zeros(entries)) for _ in range(3))
    settings = {"lr": 1.0, "betas": (0.99, 0.99), "eps": 1e-8, "weight_decay": 0.0}
    optimizer = AverageAdamW([mine], lambda: ranks, **settings)
    peers = [torch.optim.AdamW([each], **settings) for each in (whole, alone)]
    for _ in range(steps):
        gradients = mu + torch.randn(ranks, entries, generator=draw)
        mine.grad, alone.grad, whole.grad = gradients[0], gradients[0].clone(), gradients.mean(0)
        optimizer.step()
        for peer in peers:
            peer.step()
    moved = {name: tensor.mean() for name, tensor in (("mine", mine), ("whole", whole), ("alone", alone))}
    assert abs(moved["mine"] / moved["whole"] - 1) < 0.05, moved
    assert moved["alone"] / moved["whole"] < 0.9, moved


def alone():
    return 1


def test_a_copy_steps_as_the_original_does():
    optimizer = AverageAdamW(parameters(), alone, **SETTINGS)
    copies = [copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))]
    trained = []
    for each in (optimizer, *copies):
        train(each.param_groups[0]["params"], each, 3)
        trained.append(torch.cat([parameter.detach().flatten() for parameter in each.param_groups[0]["params"]]))
    assert torch.equal(trained[0], trained[1]) and torch.equal(trained[0], trained[2])


def test_ranks_are_asked_in_every_step():
    ours, ranks = parameters(), iter([4, 2, 1])
    optimizer = AverageAdamW(ours, lambda: next(ranks), **SETTINGS)
    train(ours, optimizer, 3)
    assert next(ranks, None) is None


def test_a_closure_is_called_with_gradients_and_what_it_does_not_take_is_refused():
    ours = parameters()
    optimizer = AverageAdamW(ours, lambda: 2, **SETTINGS)

    def closure():
        loss = sum(parameter.square().sum() for parameter in ours)
        optimizer.zero_grad()
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert optimizer.step(closure) < first
    for wrong in ({"lr": -1.0}, {"betas": (0.9, 1.0)}, {"eps": -1e-8}):
        with pytest.raises(InvalidError, match="AverageAdamW"):
            AverageAdamW(parameters(), lambda: 2, **wrong)
    table = torch.nn.Embedding(9, 4, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(InvalidError, match="sparse=False"):
        AverageAdamW(table.parameters(), lambda: 2).step()
    phases = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
    phases.abs().sum().backward()
    with pytest.raises(InvalidError, match="view_as_real"):
        AverageAdamW([phases], lambda: 2).step()


@pytest.mark.parametrize("every", [1, 2])
def test_what_ranks_come_to_on_average_tells_the_mean_of_their_first_moments(every):
    """Ranks that meet every so many steps: with what they tell each other they go Adam's way on the average gradients, but
    for noise that is less than without."""
    entries, ranks, steps, draw = 4_000, 4, 60, torch.Generator().manual_seed(6)
    mu = torch.linspace(-1, 1, entries)
    whole = torch.nn.Parameter(torch.zeros(entries))
    settings = {"lr": 0.01, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}
    peer, apart, far = torch.optim.AdamW([whole], **settings), {}, {"told": 0.0, "own": 0.0}
    noises = [mu + torch.randn(ranks, entries, generator=draw) for _ in range(steps)]
    for noise in noises:
        whole.grad = noise.mean(0)
        peer.step()
    for told in (False, True):
        outer = torch.zeros(entries)
        own = [torch.nn.Parameter(outer.clone()) for _ in range(ranks)]
        optimizers = [AverageAdamW([each], lambda: ranks, **settings) for each in own]
        for step, noise in enumerate(noises, 1):
            for each, optimizer, gradient in zip(own, optimizers, noise):
                each.grad = gradient
                optimizer.step()
            if step % every:
                continue
            difference = torch.stack([outer - each.detach() for each in own]).mean(0)
            for each, optimizer in zip(own, optimizers):
                if told:
                    optimizer.averaged([(each, difference, outer)])
                    state = optimizer.state[each]
                    of_all = torch.stack([other.state[o]["exp_avg"] for other, o in zip(optimizers, own)]).mean(0)
                    far["told"] += (state["exp_avg_ranks"] - of_all / (1 - 0.9 ** step)).norm().item()
                    far["own"] += ((state["exp_avg"] - of_all) / (1 - 0.9 ** step)).norm().item()
            outer -= difference
            with torch.no_grad():
                for each in own:
                    each.copy_(outer)
        apart[told] = (outer - whole.detach()).norm().item()
    print(apart, far)
    assert far["told"] < 0.8 * far["own"], far
    assert apart[True] < 0.8 * apart[False], apart


@pytest.mark.parametrize("options", [{"every": 2}, {"every": 4, "delay": 1}, {"every": 4, "delay": 3},
                                     {"every": 4, "delay": 3, "mix": 0.5}], ids=str)
def test_steps_that_an_exchange_outlasts_are_no_part_of_what_it_tells(options):
    """All ranks have one gradient in every step, so its mean first moment is that gradient."""
    ended = run_job("local/moment.py", json.dumps(options))
    (known,) = re.findall(r"known (\S+) (\S+)", ended.output)
    assert [float(part) for part in known] == pytest.approx([1, 1], rel=0.03), ended.output


def test_who_has_not_stepped_has_nothing_to_learn_from_the_others():
    mine = torch.nn.Parameter(torch.ones(3))
    optimizer = AverageAdamW([mine], lambda: 2, **SETTINGS)
    optimizer.averaged([(mine, torch.ones(3), torch.ones(3))])
    assert mine not in optimizer.state
    train([mine], optimizer, 2)
    assert optimizer.state[mine]["path"] == pytest.approx(0.02)
    saved = copy.deepcopy(optimizer.state_dict())
    optimizer.averaged([(mine, torch.ones(3), torch.ones(3))])
    optimizer.load_state_dict(saved)
    assert optimizer.state[mine]["path"] == pytest.approx(0.02)
