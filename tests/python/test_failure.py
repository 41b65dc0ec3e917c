"""What a dying rank does to the others, and what a restart makes of it."""

import re
import time

import pytest

from conftest import run_job

RESTART = 75


def test_an_exception_in_one_rank_stops_all_with_its_name():
    ended = run_job("failing.py", "raise", ranks=3, code=RESTART)
    told = [line for line in ended.output.splitlines() if "UnavailableError" in line]
    assert told and all("rank 1" in line for line in told), ended.output
    assert "ValueError: boom on purpose" in ended.output
    assert re.search(r"rank 1 .*exited with code 1", ended.output), ended.output


@pytest.mark.parametrize("how, verdict", [("kill", "SIGKILL"), ("stop", "SIGSTOP")])
def test_a_dead_or_stopped_rank_is_found_and_named(how, verdict):
    began = time.monotonic()
    ended = run_job("failing.py", how, ranks=3, code=RESTART, flags=("--failure-timeout", 2), timeout=40)
    told = [line for line in ended.output.splitlines() if "Error" in line]
    assert told and all("rank 1" in line for line in told), ended.output
    assert verdict in ended.output and time.monotonic() - began < 40


@pytest.mark.parametrize("route", ["sparse", "auto"])
def test_a_killed_and_restarted_run_ends_with_the_bits_of_the_uninterrupted(tmp_path, route):
    whole, broken, resumed = (tmp_path / name for name in ("whole", "broken", "resumed"))
    run_job("train_small.py", whole, 0, route, ranks=3)
    ended = run_job("train_small.py", broken, 11, route, ranks=3,
                    flags=("--max-restarts", 1, "--failure-timeout", 2, "--store", tmp_path / "a"))
    assert "resumed at step" in ended.output, ended.output
    assert broken.read_text() == whole.read_text()
    # The same by hand: the job is given up, and continued by --resume from its store.
    store = ("--store", tmp_path / "b", "--failure-timeout", 2)
    run_job("train_small.py", resumed, 11, route, ranks=3, flags=store, code=RESTART)
    ended = run_job("train_small.py", resumed, 0, route, ranks=3, flags=(*store, "--resume"))
    assert "resumed at step" in ended.output, ended.output
    assert resumed.read_text() == whole.read_text()
