"""Processes of pytest that share files: each test runs once, and --maxfail ends the process that has met its number."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = {"test_one.py": "def test_a(): assert 0\ndef test_b(): pass\n", "test_two.py": "def test_c(): pass\n"}


def start(folder, *flags):
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", "-v", "-p", "tests.sharing", "--taken", folder / "taken", "-c", "/dev/null",
         "--rootdir", folder, *flags, folder], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "taken").mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_each_test_runs_once(folder):
    processes = [start(folder) for _ in range(3)]
    output = "".join(process.communicate(timeout=120)[0] for process in processes)
    assert output.count("test_a FAILED") == 1, output
    assert output.count("test_b PASSED") == output.count("test_c PASSED") == 1, output


def test_the_first_failure_ends_it_where_that_is_asked_for(folder):
    output = start(folder, "--exitfirst").communicate(timeout=600)[0]
    assert "stopping after 1 failures" in output, output
    assert "::test_b" not in output and "::test_c" not in output, output
