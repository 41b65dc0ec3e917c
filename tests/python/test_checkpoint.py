"""Checkpoints that go wrong, and stores that are not what somebody thought."""

import json
import os
import subprocess

import pytest

from conftest import PROGRAM, run, run_job


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_job_on_a_full_disk_goes_on_and_saves_again_when_space_returns(small_disk):
    ended = run_job("full_disk.py", small_disk, flags=("--store", small_disk / "store"))
    assert ended.output.count("is at step 14") == 2, ended.output
    assert "free space on this disk" in ended.output, ended.output
    listed = run([PROGRAM, "checkpoint", "list", "--store", small_disk / "store", "--json"])
    newest = json.loads(listed.output)[0]
    assert newest["step"] == 14 and newest["complete"], listed.output
