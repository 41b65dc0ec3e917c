"""A few faults of each kind in real jobs; `./dev chaos` has the full counts."""

import pathlib
import subprocess
import sys

import pytest

from job import TRAINER

CHAOS = pathlib.Path(__file__).with_name("chaos.py")


def run(*arguments):
    assert TRAINER.exists(), f"{TRAINER} is missing: ./dev test builds it"
    ended = subprocess.run([sys.executable, CHAOS, *arguments], capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize("what", ["kill", "stop", "reducer", "coordinator", "server", "partition"])
def test_a_fault_in_a_fixed_job_ends_it_and_breaks_no_guarantee(what):
    said = run(what, "1", "--fixed", "--ranks", "3", "--failure-timeout", "2")
    assert f"| {what} | 1 of 1 |" in said or "skipped" in said, said
