"""One training under every launcher that a cluster may have, started as docs/clusters.md says: the same bits."""

import contextlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

import pytest

import clusters
from conftest import JOBS, PROGRAM, ROOT, run, run_job

DIGEST = JOBS / "clusters" / "digest.py"
RAY_PYTHON = os.environ.get("RINGWOOD_RAY_PYTHON", sys.executable)  # may have an environment of its own


def server(*command, flags=()):
    """The server of one job, and what starts its ranks."""
    return [PROGRAM, "server", *flags, "--", *command]


def needs(*programs):
    if (lacking := clusters.lacks(*programs)) is not None:
        pytest.skip(lacking)


@contextlib.contextmanager
def local(folder):
    yield [PROGRAM, "run", "-np", 2, "--", sys.executable, DIGEST], {}


@contextlib.contextmanager
def ssh(folder):
    needs("sshd", "ssh", "ssh-keygen")
    with clusters.sshd(folder) as remote_shell:
        yield [PROGRAM, "run", "-H", "127.0.0.1:1,127.0.0.2:1", "--rsh", remote_shell, "--network-interface", "lo",
               "--trusted-fabric", "-x", "PYTHONPATH", "-x", "RINGWOOD_LIBRARY", "--", sys.executable, DIGEST], {}


@contextlib.contextmanager
def slurm(folder):
    needs("slurmctld", "slurmd", "munged", "srun")
    with clusters.slurm(folder) as variables:
        yield server("srun", "--nodes", 2, "--ntasks", 2, sys.executable, DIGEST), variables


TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--rdzv-backend", "c10d",
            "--rdzv-endpoint", "127.0.0.1:0")


@contextlib.contextmanager
def torchrun(folder):
    yield server(*TORCHRUN, DIGEST), {"TMPDIR": str(folder)}  # where torchrun leaves a folder of logs


@contextlib.contextmanager
def bare_torchrun(folder):
    yield [*TORCHRUN, DIGEST], {"TMPDIR": str(folder)}


@contextlib.contextmanager
def mpirun(folder):
    if clusters.which("mpirun") is None:
        pytest.skip("mpirun not installed")
    root = {f"OMPI_ALLOW_RUN_AS_ROOT{confirmed}": "1" for confirmed in ("", "_CONFIRM")}
    yield server("mpirun", "--oversubscribe", "-np", 2, sys.executable, DIGEST), root


@contextlib.contextmanager
def ray(folder):
    if RAY_PYTHON == sys.executable and importlib.util.find_spec("ray") is None:
        pytest.skip("ray not installed; RINGWOOD_RAY_PYTHON names an interpreter that has it")
    with tempfile.TemporaryDirectory() as short:  # for the names of its sockets
        yield (server(RAY_PYTHON, "-m", "ringwood.examples.ray_actors", 2, DIGEST),
               {"RAY_TMPDIR": short, "HOME": str(folder)})


def digest_of(launcher, folder):
    with launcher(folder) as (command, variables):
        ended = run(command, **variables)
    found = re.findall(r"digest of 2 ranks: (\w{64})", ended.output)
    assert ended.code == 0 and len(found) == 1, f"exit code {ended.code}:\n{ended.output}"
    return found[0]


@pytest.fixture(scope="module")
def local_digest(tmp_path_factory):
    return digest_of(local, tmp_path_factory.mktemp("local"))


@pytest.mark.parametrize("launcher", [ssh, slurm, torchrun, bare_torchrun, mpirun, ray], ids=lambda launcher: launcher.__name__)
def test_has_the_bits_of_a_local_run(launcher, local_digest, tmp_path):
    assert digest_of(launcher, tmp_path) == local_digest


@pytest.mark.parametrize("whose_server", ["ours", "rank 0's"])
def test_torchruns_restart_continues_from_the_newest_checkpoint(whose_server, tmp_path):
    whole, restarted = tmp_path / "whole", tmp_path / "restarted"
    run_job("train_torch.py", whole, 0)
    command = [*TORCHRUN, "--max-restarts", 1, JOBS / "train_torch.py", restarted, 9]
    variables = {"RINGWOOD_RESUME": "auto", "TMPDIR": str(tmp_path)}
    if whose_server == "ours":
        command = server(*command, flags=("--store", tmp_path / "store"))
    else:
        variables["RINGWOOD_STORE"] = str(tmp_path / "store")
    ended = run(command, **variables)
    assert ended.code == 0 and "rank 1 resumed at step" in ended.output, ended.output
    assert restarted.read_text() == whole.read_text()


# What the batch script calls. The server ends with srun's code, and then there are the checkpoints that SAVES has.
FAKES = {
    "ringwood": 'if [ "$1" = server ]; then echo "$SAVES" > "$HOME/list"; exit $CODE; fi; cat "$HOME/list"',
    "scontrol": 'echo "$@"',
}
NONE, LIST = "no checkpoints in store\n", "STEP  EPOCH\n"


@pytest.mark.parametrize(("code", "saves", "requeued"), [
    (75, (30, 9), True), (137, (30, 9), True), (143, (30, 9), True),   # a last checkpoint; a rank was killed
    (75, (9,), False), (137, (9,), False), (75, (), False),            # it fails where it failed before
    (0, (30, 9), False), (1, (30, 9), False), (78, (30, 9), False)])
def test_the_batch_script_requeues_what_starting_again_helps(code, saves, requeued, tmp_path):
    script = re.search(r"```bash\n(#!/bin/bash\n#SBATCH.*?)```", (ROOT / "docs" / "clusters.md").read_text(), re.S)[1]
    assert "--signal TERM@" in script, "the signal of the time limit itself ends the script, too"
    if saves:
        (tmp_path / "list").write_text(LIST + "   9  1\n")  # else there is no store yet
    for name, body in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path,
                           env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path), "SLURM_JOB_ID": "7",
                                "CODE": str(code),
                                "SAVES": "".join([LIST, *(f"{step:4}  1\n" for step in saves)]) if saves else NONE})
    assert (ended.returncode, ended.stdout) == (code, "requeue 7\n" if requeued else ""), ended.stderr
