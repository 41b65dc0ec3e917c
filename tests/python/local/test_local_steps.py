"""Local steps: the schedule for every choice of numbers, the mathematics of DiLoCo, streaming fragments and error
feedback, checkpoints, ranks that die."""

import itertools
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import JOBS, ROOT, run, run_job

sys.path[:0] = [str(ROOT / "python"), str(JOBS / "local")]
torch = pytest.importorskip("torch")
import reference  # noqa: E402
from ringwood.errors import InvalidError  # noqa: E402
from ringwood.local.fragment import Fragment  # noqa: E402
from ringwood.local.local_steps import LocalSteps  # noqa: E402
from ringwood.local.rounds import Finish, Schedule, Start  # noqa: E402
from ringwood.sampler import Sampler  # noqa: E402

NESTEROV, MEAN = (0.7, 0.9, True), (1.0, 0.0, False)

SCHEDULES = [(every, fragments, delay) for every in (1, 2, 3, 6, 12, 35) for fragments in (1, 2, 3, 5, 7)
             if every % fragments == 0 for delay in range(every // fragments + 1)]


def events(schedule, steps, rounds=0):
    """[(inner step, action)] in order."""
    return [(step, action) for step in range(1, steps + 1) for action in schedule.after(step, rounds)]


@pytest.mark.parametrize("every, fragments, delay", SCHEDULES)
def test_rounds_follow_each_other_one_at_a_time(every, fragments, delay):
    schedule, under_way, next_round = Schedule(every, fragments, delay), None, 1
    for _, action in events(schedule, 5 * every + delay):
        if isinstance(action, Start):
            assert under_way is None and action.round == next_round
            under_way, next_round = action.round, next_round + 1
        else:
            assert action.round == under_way
            under_way = None
    assert under_way is None or delay


@pytest.mark.parametrize("every, fragments, delay", SCHEDULES)
def test_a_round_ends_its_delay_after_its_start(every, fragments, delay):
    at = {action: step for step, action in events(Schedule(every, fragments, delay), 6 * every + delay)}
    starts = [action.round for action in at if isinstance(action, Start)]
    ended = [number for number in starts if Finish(number) in at]
    assert ended == starts[:len(ended)] and len(starts) - len(ended) <= 1
    assert all(at[Finish(number)] - at[Start(number)] == delay for number in ended)


@pytest.mark.parametrize("every, fragments, delay", SCHEDULES)
def test_each_fragment_leaves_once_in_every_steps(every, fragments, delay):
    schedule = Schedule(every, fragments, delay)
    starts = {step: schedule.fragment(action.round) for step, action in events(schedule, 4 * every)
              if isinstance(action, Start)}
    for begin in range(3 * every):
        window = [starts[step] for step in range(begin + 1, begin + every + 1) if step in starts]
        assert sorted(window) == list(range(fragments))


@pytest.mark.parametrize("every, fragments, delay", SCHEDULES)
def test_rounds_and_fragments_go_on_from_where_the_session_is(every, fragments, delay):
    schedule = Schedule(every, fragments, delay)
    for before in (1, 4, 17):
        moved = [(step, type(action)(action.round - before)) for step, action in events(schedule, 3 * every, before)]
        assert moved == events(schedule, 3 * every)
    numbers = [action.round for _, action in events(schedule, 3 * every, 4) if isinstance(action, Start)]
    assert [schedule.fragment(number) for number in numbers] == [
        turn for _, turn in zip(numbers, itertools.islice(itertools.cycle(range(fragments)), 4 % fragments, None))]


@pytest.mark.parametrize("numbers, named", [((0,), "every=0"), ((4, 3), "multiple"), ((4, 2, 3), "at most"),
                                            ((4, 1, -1), "delay=-1"), ((2.5,), "every=2.5"), ((4, 0), "fragments=0")])
def test_what_makes_no_schedule_is_refused(numbers, named):
    with pytest.raises(InvalidError, match=named):
        Schedule(*numbers)


def test_what_a_rank_without_samples_trains_has_no_weight():
    optimizer, weights = SimpleNamespace(schedule=Schedule(2), session=SimpleNamespace(step=0), _came=0, _left_out=None), []
    sampler = Sampler(50, 2, rank=0, world=3)
    for _, indices in zip(range(1), sampler):
        for batch in LocalSteps.batches(optimizer, indices):
            weights.append((len(batch), optimizer.weight))
    assert sampler.weight == 0 and weights == [(1, 0.0), (1, 0.0)]


@pytest.mark.parametrize("ranks, steps, outer, fragments, uneven, names", [
    (2, 6, MEAN, 1, False, {"every": 1}),
    (2, 12, NESTEROV, 1, False, {"sync_every": 3}),
    (3, 12, NESTEROV, 1, True, {"every": 4}),
    (3, 25, NESTEROV, 2, True, {"every": 6, "delay": 2, "mix": 0.5}),
    (2, 20, (0.5, 0.5, False), 3, True, {"sync_every": 6, "fragment_sync_delay": 2, "fragment_update_alpha": 0.25}),
])
def test_parameters_are_those_of_the_reference(ranks, steps, outer, fragments, uneven, names, tmp_path):
    choices = {"outer": outer, "fragments": fragments, "uneven": uneven, "names": names, "steps": steps}
    ended = run_job("local/quadratic.py", json.dumps(choices), tmp_path / "run", ranks=ranks)
    runs = [np.load(tmp_path / f"run.{rank}.npz") for rank in range(ranks)]
    every, delay, mix = (names.get(ours, names.get(torchft, 0)) for ours, torchft in (
        ("every", "sync_every"), ("delay", "fragment_sync_delay"), ("mix", "fragment_update_alpha")))
    parts = json.loads(str(runs[0]["fragments"]))
    assert len(parts) == fragments
    history, theta = reference.train(ranks, steps, parts, every, delay, mix, outer, uneven)
    for rank, run in enumerate(runs):
        np.testing.assert_allclose(run["own"], history[:, rank], rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(run["outer"], theta, rtol=2e-5, atol=2e-6)
        assert run["outer"].tobytes() == runs[0]["outer"].tobytes()
    assert ended.output.count("in join()") == ranks


def test_one_step_and_plain_averaging_is_data_parallel_sgd(tmp_path):
    ranks, steps = 3, 8
    choices = {"outer": MEAN, "fragments": 1, "uneven": False, "names": {"every": 1}, "steps": steps}
    run_job("local/quadratic.py", json.dumps(choices), tmp_path / "run", ranks=ranks)
    weights = reference.flat({name: value.astype(np.float64) for name, value in reference.start().items()})
    for step in range(1, steps + 1):
        mean = np.mean([reference.flat(reference.targets(rank, step)) for rank in range(ranks)], axis=0)
        weights -= reference.RATE * (weights - mean)
    for rank in range(ranks):
        np.testing.assert_allclose(np.load(tmp_path / f"run.{rank}.npz")["own"][-1], weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("codec, decay, fragments, ahead", [
    ("rice/fp32", 1, 1, True), ("rice/int2", 0.95, 1, False), ("rice/int2", 1, 2, True)])
def test_what_is_not_sent_is_owed(codec, decay, fragments, ahead):
    ended = run_job("local/sparse.py", codec, decay, fragments, ahead, ranks=3)
    assert ended.output.count("all as it should be") == 3, ended.output


def resumed(folder, steps, save, ahead, store, *flags, ranks=3):
    folder.mkdir()
    run_job("local/resumed.py", folder, steps, save, ahead, ranks=ranks, flags=["--store", store, *flags])
    return [path.read_text() for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("save, ahead", [(13, True), (15, False)])  # a round is under way; none is
def test_a_checkpoint_within_a_round_goes_on_with_the_same_bits(save, ahead, tmp_path):
    whole = resumed(tmp_path / "whole", 22, 0, ahead, tmp_path / "other")
    assert len(set(whole)) == 3, "ranks have parameters of their own between two exchanges"
    resumed(tmp_path / "before", 22, save, ahead, tmp_path / "store")
    assert resumed(tmp_path / "after", 22, 0, ahead, tmp_path / "store", "--resume") == whole


@pytest.mark.parametrize("delay", [0, 1, 3])  # a save settles no round, twice; it settles the next one
def test_each_round_is_saved_once(delay, tmp_path):
    ended = run_job("local/saved.py", delay, flags=["--store", tmp_path])
    assert ended.output.count("all as it should be") == 2, ended.output
    assert ended.output.count("1 step(s) since then are not in it") == 1, ended.output


def test_another_world_goes_on_from_the_outer_parameters(tmp_path):
    resumed(tmp_path / "before", 22, 13, True, tmp_path / "store")
    after = resumed(tmp_path / "after", 22, 0, True, tmp_path / "store", "--resume", ranks=2)
    assert {text.split()[1] for text in after} == {"3"}


@pytest.mark.parametrize("delay", [0, 2])
def test_a_rank_that_dies_comes_back_and_the_others_lose_its_part_only(delay, tmp_path):
    ended = run_job("local/elastic.py", tmp_path, delay, ranks=3, flags=["--elastic"])
    told = [line for line in ended.output.splitlines() if " did " in line]
    assert len(told) == 3 and sum("came and" in line for line in told) == 1, ended.output
    assert sum("rounds 1 to" in line for line in told) == 2, ended.output


@pytest.mark.parametrize("fragments", [1, 2])
def test_a_rank_that_comes_while_the_others_end_ends_with_them(fragments, tmp_path):
    ended = run_job("local/elastic_end.py", tmp_path, fragments, ranks=3, flags=["--elastic"])
    told = sorted(line.split(": ", 1)[1] for line in ended.output.splitlines() if " joined in " in line)
    assert told == [f"came, joined in {fragments} rounds", *["joined in more rounds"] * 2], ended.output


@pytest.mark.parametrize("fragments, delay, where", [(8, 0, "step"), (1, 2, "step"), (1, 4, "step"),
                                                    (1, 2, "settle")])
def test_a_rank_that_was_away_goes_on_like_a_new_one(fragments, delay, where, tmp_path):
    ended = run_job("local/away.py", tmp_path, fragments, delay, where, ranks=3, flags=["--elastic", "--failure-timeout", 2])
    assert ended.output.count("all as it should be") == 3 and "back with round" in ended.output, ended.output


@pytest.mark.parametrize("fragments, delay", [(1, 0), (1, 1), (2, 0)])
def test_the_last_rank_that_trains_may_come_to_nan_and_goes_on(fragments, delay):
    ended = run_job("local/not_finite.py", fragments, delay, ranks=3)
    assert ended.output.count("all as it should be") == 3, ended.output


EXAMPLE = ROOT / "examples" / "local_steps.py"


@pytest.mark.parametrize("recipe, least", [("pairs", 40), ("diloco", 6), ("streaming", 30), ("sparseloco", 100)])
def test_the_example_learns_with_each_recipe(recipe, least, tmp_path):
    report = tmp_path / "report"
    run_job(EXAMPLE, "--recipe", recipe, "--every", 8, "--steps", 160, "--lr", 0.01, "--report", report)
    result = json.loads(report.read_text())
    assert result["validation_loss"] < 3.1 and result["times_fewer_bytes"] > least, result


def test_wrong_use_is_refused():
    ended = run([sys.executable, JOBS / "local" / "misuse.py"], RANK="0", WORLD_SIZE="1",
                RINGWOOD_COORDINATOR="127.0.0.1:1")
    assert ended.code == 0 and "all as it should be" in ended.output, ended.output


def test_a_loop_that_was_written_for_other_optimizers_goes_on_with_local_steps():
    ended = run_job("local/ported.py")
    assert ended.output.count("all as it should be") == 2, ended.output


def test_an_update_log_is_refused_before_the_first_step(tmp_path):
    ended = run_job("local/ported.py", ranks=1, code=78, flags=["--store", tmp_path, "--update-log"])
    assert "local steps keep no update log" in ended.output and "in make" in ended.output, ended.output


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_what_a_coarse_type_rounds_away_is_no_training(kind, ahead):
    """The outer parameters are finer than a model of bfloat16: a rank that has not trained differs in nothing from them, and
    what the ranks gained, less than the model's type can hold, adds up over the rounds."""
    parameter = torch.nn.Parameter(torch.full((40,), 3.0, dtype=getattr(torch, kind)))
    fragment = Fragment([("weight", parameter)], lambda tensors: torch.optim.SGD(tensors, lr=1.0), ahead)
    fragment.begin()
    for done in range(1, 9):
        assert fragment.differ() and not fragment.difference.any(), f"round {done}"
        fragment.difference.fill_(-2.0 ** -9)  # the average of ranks of which few have trained
        fragment.update()
        fragment.give()
        assert fragment.outer.eq(3 + done * 2.0 ** -9).all() and parameter.eq(fragment.outer.to(parameter.dtype)).all()
    with torch.no_grad():
        parameter.add_(0.5)
    assert fragment.differ() and fragment.difference.eq(-0.5).all()
