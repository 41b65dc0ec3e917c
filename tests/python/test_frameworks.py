"""Scripts that other launchers and trainers run."""

import importlib.util
import re
import signal
import subprocess
import sys

import pytest

from conftest import JOBS, PROGRAM, ROOT, environment, run, run_job


def needs(name):
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


@pytest.fixture
def coordinator(tmp_path):
    """A server by hand; where it listens."""
    process = subprocess.Popen([PROGRAM, "server", "--listen", "127.0.0.1:0", "--store", tmp_path / "store",
                                "--insecure"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=environment())
    for line in process.stdout:
        if found := re.search(r"listening on (127\.0\.0\.1:\d+)", line):
            yield found[1]
            break
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


def torchrun(script, coordinator):
    return run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--rdzv-backend", "c10d",
                "--rdzv-endpoint", "127.0.0.1:0", JOBS / script], RINGWOOD_COORDINATOR=coordinator)


def test_torchrun_with_a_server_by_hand(coordinator):
    for _ in range(2):  # one job after the other
        ended = torchrun("taken_over.py", coordinator)
        assert ended.code == 0, ended.output


@needs("accelerate")
def test_accelerate_with_the_hook_has_the_losses_without():
    assert "the same losses" in run_job("with_accelerate.py", PYTHONPATH=with_installed()).output


@needs("transformers")
def test_the_trainer_of_transformers_with_the_hook_has_the_losses_without(tmp_path):
    ended = run_job("with_trainer.py", tmp_path, PYTHONPATH=with_installed(), HF_HUB_OFFLINE="1")
    assert "the same losses" in ended.output, ended.output


def with_installed():
    """This process's path: the frameworks may lie beside the environment."""
    return ":".join([str(ROOT / "python"), *filter(None, sys.path)])
