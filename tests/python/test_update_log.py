"""After the loss of all processes a job with an update log goes on from the last committed step."""

import json
import random
import sys

import pytest

from conftest import JOBS, PROGRAM, ROOT, run, run_job

sys.path.insert(0, str(ROOT / "tests" / "chaos"))
from updates import Life, Memory  # noqa: E402

STEPS, EVERY = 60, 25


def kill_after(life, step):
    life.start()
    life.wait_for(step)
    life.kill()


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_no_committed_step_is_lost(tmp_path, kind):
    memory, chosen = Memory(), random.Random(kind)
    for number, step in enumerate([chosen.randrange(3, 20), chosen.randrange(28, 45), None]):
        life = Life(tmp_path, number, kind, 2, STEPS, EVERY)
        if step is None:
            life.start()
            assert life.end() == 0, life.said()
        else:
            kill_after(life, step)
        memory.check(life, resumed=number > 0)
    assert memory.last == STEPS and len(life.of("end")) == 2


def resumed_otherwise(life, folder, call):
    """The life of a program that resumes by another `call`."""
    (folder / "tests").mkdir()
    text = life.script.read_text().replace("rw.resume(model, optimizer, before_step=clip)", call)
    life.script = folder / "tests" / "other.py"
    life.script.write_text(text.replace('__file__.rsplit("/tests/", 1)[0]', repr(str(ROOT))))
    life.start()
    return life


def test_a_loop_that_changes_gradients_says_so_when_it_is_replayed(tmp_path):
    kill_after(Life(tmp_path, 0, "adam", 1, STEPS, EVERY), 5)
    life = resumed_otherwise(Life(tmp_path, 1, "adam", 1, STEPS, EVERY), tmp_path, "rw.resume(model, optimizer)")
    assert life.end() != 0 and "Give before_step=" in life.said(), life.said()


def test_gradients_that_are_let_go_after_each_step_are_so_in_a_replay(tmp_path):
    memory = Memory()
    first = Life(tmp_path, 0, "adam", 1, STEPS, EVERY)
    kill_after(first, 8)
    memory.check(first, resumed=False)
    life = resumed_otherwise(Life(tmp_path, 1, "adam", 1, STEPS, EVERY), tmp_path,
                             "rw.resume(model, optimizer, clip, lambda: optimizer.zero_grad(set_to_none=True))")
    assert life.end() == 0, life.said()
    memory.check(life, resumed=True)


def test_each_sample_is_used_once_where_other_ranks_go_on_after_a_replay(tmp_path):
    pytest.importorskip("torch")
    for ranks, resume in ((2, ()), (4, ("--resume",))):
        ended = run([PROGRAM, "run", "-np", ranks, "--store", tmp_path / "store", "--update-log", *resume, "--",
                     sys.executable, JOBS / "checkpoints" / "samples.py", tmp_path])
        assert (ended.code == 0) == bool(resume), ended.output
    used = [int(sample) for file in tmp_path.glob("used.*") for sample in file.read_text().split()]
    assert sorted(used) == list(range(120))


@pytest.mark.parametrize("small_disk", [160], indirect=True)
def test_the_log_leaves_room_for_the_checkpoints_beside_it(small_disk):
    ended = run_job("checkpoints/log_disk.py", 60, 180, flags=("--store", small_disk / "store", "--update-log"))
    assert all(f"rank {rank} has 3 checkpoints" in ended.output for rank in range(2)), ended.output
    assert "the next checkpoints need" in ended.output and "free space on this disk" not in ended.output, ended.output
    assert "the update log goes on with step 61" in ended.output, ended.output


def lives_with_a_scaler(folder, known):
    """How the life after the one that was killed ended."""
    for resume in ((), ("--resume",)):
        ended = run([PROGRAM, "run", "-np", 1, "--store", folder / "store", "--update-log", *resume, "--", sys.executable,
                     JOBS / "optimizer" / "replayed_scaler.py", folder, known])
    return ended


def test_the_optimizers_gradscaler_is_replayed_with_its_unscale_and_update(tmp_path):
    pytest.importorskip("torch")
    ended = lives_with_a_scaler(tmp_path, "known")
    assert ended.code == 0 and "9 logged steps replayed" in ended.output, ended.output


def test_gradients_that_another_gradscaler_has_unscaled_are_refused_in_a_replay(tmp_path):
    pytest.importorskip("torch")
    ended = lives_with_a_scaler(tmp_path, "unknown")
    assert ended.code != 0 and "Give before_step=" in ended.output, ended.output


@pytest.mark.parametrize("saves", [True, False])
def test_a_step_that_the_loop_left_out_is_not_replayed(saves, tmp_path):
    pytest.importorskip("torch")
    arguments = ("optimizer/dropped.py", tmp_path, "saves" if saves else "goes_on")
    flags = ("--store", tmp_path / "store", "--update-log")
    ended = run_job(*arguments, ranks=1, code=75, flags=flags)
    assert "the averages of step 3 were dropped by zero_grad()" in ended.output, ended.output
    ended = run_job(*arguments, ranks=1, code=0 if saves else 78, flags=(*flags, "--resume"))
    assert ("2 logged steps replayed" if saves else "left out step 3 of the update log") in ended.output, ended.output


def test_a_learning_rate_that_is_set_between_backward_and_step_has_to_be_told(tmp_path):
    pytest.importorskip("torch")
    flags = ("--store", tmp_path / "store", "--update-log")
    run_job("optimizer/dropped.py", tmp_path, "rate", ranks=1, code=75, flags=flags)
    for told, code, words in (("rate", 78, "Give before_step="), ("rate_told", 0, "5 logged steps replayed")):
        ended = run_job("optimizer/dropped.py", tmp_path, told, ranks=1, code=code, flags=(*flags, "--resume"))
        assert words in ended.output, ended.output


def newest_checkpoint(folder):
    listed = run([PROGRAM, "checkpoint", "list", "--store", folder / "store", "--json"])
    return max(found["step"] for found in json.loads(listed.output) if found["complete"])


def test_without_the_log_the_steps_after_the_checkpoint_are_given_up(tmp_path):
    kill_after(Life(tmp_path, 0, "adam", 1, STEPS, EVERY), EVERY + 5)
    newest = newest_checkpoint(tmp_path)
    life = Life(tmp_path, 1, "adam", 1, STEPS, EVERY)
    life.flags.remove("--update-log")
    life.start()
    assert life.end() == 0 and "logged rounds after step" in life.said(), life.said()
    opened, = life.of("open")
    assert opened["step"] == newest
    newest = newest_checkpoint(tmp_path)
    again = Life(tmp_path, 2, "adam", 1, STEPS, EVERY)
    again.start()
    assert again.end() == 0, again.said()
    assert again.of("open")[0]["step"] == newest  # nothing of the first life


def test_a_note_has_room_for_a_thousand_groups():
    torch = pytest.importorskip("torch")
    replay = pytest.importorskip("ringwood.replay")

    def groups(rate):
        layers = [torch.nn.Parameter(torch.zeros(1)) for _ in range(1000)]
        return torch.optim.AdamW([{"params": [each], "lr": rate / (1 + i)} for i, each in enumerate(layers)]).param_groups

    content = replay.note_of(groups(0.1), None, [], replay.Changes(False))
    assert len(content) <= 1 << 16  # kMaxNoteBytes
    resumed = groups(0.2)
    replay.Note(content).set_groups(resumed)
    assert [each["lr"] for each in resumed] == [each["lr"] for each in groups(0.1)]
    with pytest.raises(replay.RefusedError, match="has 999 parameter groups, and its numbers are those of 1000"):
        replay.set_numbers(resumed[:-1], replay.numbers_of(resumed))  # as by a log, or by the state of other ranks
    with pytest.raises(replay.CorruptError):
        replay.Note(content[:-1])
