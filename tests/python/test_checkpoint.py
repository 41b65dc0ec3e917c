"""Checkpoints that go wrong, and stores that are not what somebody thought."""

import json
import re
import subprocess
import sys

import pytest

from conftest import PROGRAM, run, run_job


@pytest.mark.parametrize("small_disk", [24], indirect=True)
def test_a_job_on_a_full_disk_goes_on_and_saves_again_when_space_returns(small_disk):
    ended = run_job("full_disk.py", small_disk, flags=("--store", small_disk / "store"))
    assert ended.output.count("is at step 14") == 2, ended.output
    assert "free space on this disk" in ended.output, ended.output
    listed = run([PROGRAM, "checkpoint", "list", "--store", small_disk / "store", "--json"])
    newest = json.loads(listed.output)[0]
    assert newest["step"] == 14 and newest["complete"], listed.output
    for path in (small_disk / "store").rglob("*"):  # for its owner's eyes only
        assert path.is_symlink() or path.stat().st_mode & 0o077 == 0, path


SAVES = """
import numpy as np
import ringwood
with ringwood.Session() as session:
    gradient = np.zeros(10, np.float32)
    session.register("w", gradient)
    for step in range(4):
        session.begin_step(1)
        session.ready("w")
        session.finish_step()
        session.checkpoint({"weights": np.random.default_rng(step).bytes(1 << 20)}, {})
        session.checkpoint_wait()
"""


@pytest.mark.parametrize("small_disk", [40], indirect=True)
def test_checkpoints_are_pruned_where_the_disk_has_no_byte_left(small_disk):
    store = small_disk / "store"
    run([PROGRAM, "run", "-n", "1", "--store", store, "--keep-checkpoints", "4", "--", sys.executable, "-c", SAVES])
    with open(small_disk / "other", "wb", buffering=0) as other, pytest.raises(OSError):
        while True:
            other.write(bytes(4096))
    ended = run([PROGRAM, "checkpoint", "prune", "--store", store])
    assert "removed step 1" in ended.output and "removed step 2" in ended.output, ended.output
    assert list(jobs_of(store).values()) == [[4, 3]]
    (small_disk / "other").unlink()
    run([PROGRAM, "checkpoint", "prune", "--store", store])
    assert (store / "BALLAST").exists()  # for the next time


def jobs_of(store):
    """Steps of the complete checkpoints by job, newest first."""
    listed = json.loads(run([PROGRAM, "checkpoint", "list", "--store", store, "--json"]).output)
    steps = {}
    for each in listed:
        steps.setdefault(each["job"], []).append(each["step"])
    return steps


def test_resume_where_there_is_nothing_is_refused_unless_it_may_begin(tmp_path):
    flags = ("--store", tmp_path / "a")
    ended = run_job("train.py", tmp_path / "out", "nobody", flags=(*flags, "--resume", "--max-restarts", 3), code=78)
    assert "no complete checkpoint of any job" in ended.output, ended.output
    ended = run_job("train.py", tmp_path / "out", "nobody", flags=(*flags, "--resume=auto"))
    assert "new job" in ended.output and "resumed" not in ended.output, ended.output
    ended = run_job("train.py", tmp_path / "out", "nobody", flags=(*flags, "--resume-job", "77"), code=78)
    assert "no complete checkpoint of job 0000000000000077" in ended.output, ended.output


def test_a_fresh_start_in_the_same_store_costs_the_other_job_nothing(tmp_path):
    store = ("--store", tmp_path / "a")
    run_job("train.py", tmp_path / "whole", "nobody")
    run_job("train.py", tmp_path / "first", "all", flags=store, code=75)
    (first, steps), = jobs_of(tmp_path / "a").items()
    assert steps == [8, 4]
    ended = run_job("train.py", tmp_path / "second", "nobody", flags=store)
    assert f"the checkpoints of job {first} (step 8) stay" in ended.output, ended.output
    kept = jobs_of(tmp_path / "a")
    assert len(kept) == 2 and kept[first] == [8, 4], kept
    ended = run_job("train.py", tmp_path / "first", "nobody", flags=(*store, "--resume-job", first))
    assert f"resumed at step 8 of job {first}" in ended.output, ended.output
    assert (tmp_path / "first").read_text() == (tmp_path / "whole").read_text()


def test_a_restart_before_the_first_checkpoint_goes_on_as_its_own_job(tmp_path):
    """And not from the checkpoint of the job that was in the store before."""
    store = ("--store", tmp_path / "a")
    run_job("train.py", tmp_path / "first", "nobody", flags=store)
    first, = jobs_of(tmp_path / "a")
    ended = run_job("early.py", flags=(*store, "--max-restarts", 1))
    lines = re.findall(r"^(?:\[1\] )?rank [01] at step 0$", ended.output, re.MULTILINE)  # not in what is repeated
    assert len(lines) == 4 and "resumed at" not in ended.output, ended.output
    assert list(jobs_of(tmp_path / "a")) == [first]


def test_a_step_that_the_loop_has_saved_is_not_saved_again_at_its_end():
    run_job("checkpoints/ended.py")


def test_a_second_session_that_lacks_steps_of_the_first_one_says_so(tmp_path):
    lost, saved = (run_job("checkpoints/twice.py", *words, ranks=1, flags=("--store", tmp_path / str(len(words)), "--resume=auto"))
                   for words in ((), ("saved",)))
    assert "begins at 0 and 1" in lost.output and "begins at 0 and 3" in saved.output, lost.output + saved.output
    assert "ended at step 3, and this one begins with the checkpoint of step 1" in lost.output, lost.output
    assert "the session before" not in saved.output, saved.output


def test_a_checkpoint_is_shown_and_verified_by_step_and_epoch(tmp_path):
    store = ("--store", tmp_path / "a")
    run_job("train.py", tmp_path / "out", "nobody", flags=store)
    shown = json.loads(run([PROGRAM, "checkpoint", "show", *store, "--json"]).output)
    assert shown["step"] == 16 and shown["epoch"] == 1 and shown["world"] == 2
    items = {(each["name"], each["scope"], each.get("rank")): each["bytes"] for each in shown["items"]}
    assert items["large", "shared", None] == 80_000 and ("random", "own", 1) in items, items
    verified = run([PROGRAM, "checkpoint", "verify", *store, "--step", 16, "--epoch", 1])
    assert verified.code == 0 and "step 16 of epoch 1: good" in verified.output, verified.output
    assert run([PROGRAM, "checkpoint", "verify", *store, "--step", 16, "--epoch", 2]).code == 78
    negative = run([PROGRAM, "checkpoint", "show", *store, "--step", -1])
    assert negative.code == 78 and "18446744073709551615" not in negative.output, negative.output


def test_saves_beside_the_next_forward_leave_nothing_behind(tmp_path):
    run_job("checkpoints/beside.py", ranks=1, flags=("--store", tmp_path / "store"))


def test_what_is_asked_for_is_kept_and_what_is_pinned(tmp_path):
    store = ("--store", tmp_path / "a")
    run_job("train.py", tmp_path / "out", "nobody", flags=(*store, "--keep-every", 8))
    kept, = jobs_of(tmp_path / "a").values()
    assert kept == [16, 12, 8]
    pinned = run([PROGRAM, "checkpoint", "pin", *store, "--step", 8, "--label", "half"])
    assert pinned.code == 0 and "step 8 of epoch 1 is pinned" in pinned.output, pinned.output
    listed = json.loads(run([PROGRAM, "checkpoint", "list", *store, "--json"]).output)
    assert [each["label"] for each in listed] == ["", "", "half"] and listed[2]["pinned"], listed
    run_job("train.py", tmp_path / "out", "nobody", flags=(*store, "--resume", "--keep-checkpoints", 3))
    pruned = json.loads(run([PROGRAM, "checkpoint", "prune", *store, "--json"]).output)
    assert pruned["removed"] == [], pruned
    assert run([PROGRAM, "checkpoint", "pin", *store, "--step", 8, "--unpin"]).code == 0
    would = run([PROGRAM, "checkpoint", "prune", *store, "--dry-run"])
    assert "would remove step 8 of epoch 1" in would.output, would.output
    assert "removed step 8 of epoch 1" in run([PROGRAM, "checkpoint", "prune", *store]).output
    assert "nothing to remove" in run([PROGRAM, "checkpoint", "prune", *store]).output
