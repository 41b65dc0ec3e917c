"""A few faults of each kind in real jobs; `./dev chaos` has the full counts."""

import pathlib
import subprocess
import sys

import pytest

from job import TRAINER

CHAOS = pathlib.Path(__file__).with_name("chaos.py")


def run(*arguments, seconds=240):
    assert TRAINER.exists(), f"{TRAINER} is missing: ./dev test builds it"
    ended = subprocess.run([sys.executable, CHAOS, *arguments], capture_output=True, text=True, timeout=seconds)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("what", ["kill", "stop", "reducer", "coordinator", "server", "partition"])
def test_a_fault_in_a_fixed_job_ends_it_and_breaks_no_guarantee(what):
    said = run(what, "1", "--fixed", "--ranks", "3", "--failure-timeout", "2")
    assert f"| {what} | 1 of 1 |" in said or "skipped" in said, said


@pytest.mark.parametrize("what, count", [("kill", 3), ("stop", 1), ("reducer", 1), ("coordinator", 1), ("server", 1),
                                         ("partition", 1)])
def test_an_elastic_job_goes_on_after_a_fault_and_is_whole_again(what, count):
    said = run(what, str(count), "--ranks", "3", "--failure-timeout", "2", "--down", "1")
    assert f"| {what} | {count} of {count} |" in said or "skipped" in said, said


@pytest.mark.parametrize("what", ["kill", "stop"])
def test_an_elastic_job_over_grpc_goes_on_after_a_fault(what):
    said = run(what, "2", "--ranks", "3", "--failure-timeout", "2", "--transport", "grpc")
    assert f"| {what} | 2 of 2 |" in said, said


def test_an_elastic_job_shrinks():
    said = run("kill", "2", "--ranks", "4", "--shrink")
    assert "| kill | 2 of 2 |" in said and "| – |" in said, said
