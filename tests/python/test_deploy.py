"""What deploy/ has for Kubernetes and systemd, held to their own rules."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import JOBS, PROGRAM, ROOT

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "ringwood-server.service"
# An interpreter that has kubernetes-validate; ./dev package --check has one.
KUBERNETES_PYTHON = os.environ.get("RINGWOOD_KUBERNETES_PYTHON", sys.executable)


@pytest.mark.skipif(KUBERNETES_PYTHON == sys.executable and not importlib.util.find_spec("kubernetes_validate"),
                    reason="kubernetes-validate not installed; RINGWOOD_KUBERNETES_PYTHON names a Python that has it")
def test_the_manifests_are_what_kubernetes_and_a_job_need():
    ended = subprocess.run([KUBERNETES_PYTHON, JOBS / "clusters" / "manifests.py", DEPLOY / "kubernetes"],
                           capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze not installed")
def test_systemd_accepts_the_unit(tmp_path):
    unit = tmp_path / UNIT.name  # the program is not installed
    unit.write_text(UNIT.read_text().replace("/usr/bin/ringwood", str(PROGRAM)))
    ended = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert ended.returncode == 0 and not ended.stderr, ended.stderr
    unit.write_text(unit.read_text().replace("RestartSec=", "RestartSeconds="))  # it would have said so
    ended = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    assert "RestartSeconds" in ended.stderr


@pytest.mark.parametrize(("server", "ranks"), [("server.yaml", "job.yaml"), ("jobset.yaml", "jobset.yaml")])
def test_the_server_waits_as_long_as_the_ranks_are_to_wait_for_each_other(server, ranks):
    """It ends the waiting of those that would wait for longer."""
    given = re.search(r"--join-timeout=(\d+)", (DEPLOY / "kubernetes" / server).read_text())
    wanted = re.search(r'RINGWOOD_JOIN_TIMEOUT, value: "(\d+)"', (DEPLOY / "kubernetes" / ranks).read_text())
    assert given and given[1] == wanted[1]


def test_a_wrong_configuration_is_not_started_again():
    """78, and what a shell cannot start, fail the Job at once; by that reason a JobSet knows it."""
    fails = re.compile(r"action: FailJob\b.*\n +onExitCodes: {containerName: (\w+), operator: In, values: \[78, 126, 127\]}")
    job, jobset = ((DEPLOY / "kubernetes" / name).read_text() for name in ("job.yaml", "jobset.yaml"))
    assert fails.findall(job) == ["rank"]
    assert fails.findall(jobset) == ["server", "rank"]
    assert re.search(r"action: FailJobSet\n +onJobFailureReasons: \[PodFailurePolicy\]\n", jobset)


def test_every_volume_that_a_pod_claims_is_there():
    for path in (DEPLOY / "kubernetes").glob("*.yaml"):
        claimed = set(re.findall(r"claimName: ([\w-]+)", path.read_text()))
        assert claimed <= set(re.findall(r"kind: PersistentVolumeClaim\nmetadata:\n  name: (\S+)", path.read_text())), path


def test_the_server_has_every_flag_that_they_give():
    known = set(re.findall(r"--[\w-]+", subprocess.run([PROGRAM, "server", "--help"], capture_output=True, text=True,
                                                       check=True).stdout))
    for name in ("kubernetes/server.yaml", "kubernetes/jobset.yaml"):
        given = set(re.findall(r"^ +- (--[\w-]+)", (DEPLOY / name).read_text(), re.M))
        assert given and given <= known, (name, given - known)
    command = re.search(r"^ExecStart=(.*)$", UNIT.read_text(), re.M)[1]
    assert set(re.findall(r"--[\w-]+", command)) <= known, command
