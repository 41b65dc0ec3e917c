"""SIGTERM: a checkpoint after the step in hand, then 75; who starts the job again loses nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import clusters
from conftest import JOBS, PROGRAM, ROOT, environment, python, run, run_job

MANY = 10**6  # steps: more than are ever done
SECONDS = 400   # on a machine that does much else


def begun(folder, process):
    """Waits until both ranks have trained for some steps; their process numbers."""
    files = [folder / f"there.{rank}" for rank in range(2)]
    deadline = time.monotonic() + SECONDS
    while not all(file.exists() and file.read_text() for file in files):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"it does not train:\n{process.communicate()[0]}")
        time.sleep(0.02)
    return [int(file.read_text()) for file in files]


def asked(command, folder, ask, **variables):
    """Starts it, asks it to end while it trains, and returns the step that it saved."""
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=environment(**variables))
    ask(process, begun(folder, process))
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail(f"it goes on:\n{process.communicate()[0]}")
    assert process.returncode == 75, f"exit code {process.returncode}:\n{output}"
    saved = set(re.findall(r"rank 0: ends as a rank was asked to: the checkpoint of step (\d+) is complete", output))
    assert len(saved) == 1, output  # the launcher may repeat the line
    return int(saved.pop())


def check_what_was_saved(store, step, folder):
    """A resumed run goes on from that step, and ends with the bits of one that was not interrupted."""
    resumed = run_job("clusters/asked.py", folder, step + 10, flags=("--store", store, "--resume"))
    assert f"begins at step {step}\n" in resumed.output, resumed.output
    whole = run_job("clusters/asked.py", folder, step + 10)
    assert re.findall(r"digest \w+", resumed.output) == re.findall(r"digest \w+", whole.output) != []


def the_launcher(process, ranks):
    process.send_signal(signal.SIGTERM)


def one_rank(process, ranks):
    os.kill(ranks[1], signal.SIGTERM)


def local(store, folder, *flags):
    return [PROGRAM, "run", "-np", 2, "--grace", 100, "--store", store, *flags, "--",
            *python(JOBS / "clusters/asked.py"), folder, MANY, *(flag.strip("-") for flag in flags)]


def test_a_local_job_saves_and_ends_with_75(tmp_path):
    store = tmp_path / "store"
    step = asked(local(store, tmp_path), tmp_path, the_launcher)
    check_what_was_saved(store, step, tmp_path)


def test_one_asked_rank_is_enough(tmp_path):
    assert asked(local(tmp_path / "store", tmp_path), tmp_path, one_rank) > 5


def test_an_elastic_job_saves_where_all_ranks_are_ended(tmp_path):
    store = tmp_path / "store"
    process = subprocess.Popen([str(word) for word in local(store, tmp_path, "--elastic")], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
    begun(tmp_path, process)
    the_launcher(process, None)
    output, _ = process.communicate(timeout=SECONDS)
    saved = list(map(int, re.findall(r": the checkpoint of step (\d+) is complete", output)))
    assert process.returncode == 75 and saved, output
    resumed = run_job("clusters/asked.py", tmp_path, max(saved) + 3, "elastic",
                      flags=("--elastic", "--store", store, "--resume"))
    assert f"begins at step {max(saved)}\n" in resumed.output, resumed.output


def test_what_a_rank_owes_that_is_ended_goes_to_one_that_goes_on(tmp_path):
    """The launcher starts it again, and all are ended later: what came since then is given and owed by three processes."""
    folder = tmp_path / "said"
    folder.mkdir()

    def said(rank):
        """What the processes of the rank have written, the newest last."""
        files = [file for file in folder.glob(f"{rank}.*") if file.suffix != ".new"]
        return sorted((json.loads(file.read_text()) | {"process": int(file.suffix[1:])} for file in files),
                      key=lambda one: one["step"])

    def until(holds):
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
            time.sleep(0.02)

    command = [PROGRAM, "run", "-np", 2, "--elastic", "--min-np", 1, "--grace", 100, "--store", tmp_path / "store", "--",
               *python(JOBS / "clusters/owing.py"), folder]
    process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, env=environment())
    try:
        until(lambda: said(0) and said(1) and said(1)[-1]["step"] > 3)
        os.kill(said(1)[-1]["process"], signal.SIGTERM)
        until(lambda: len(said(1)) == 2 and said(0)[-1]["step"] > said(1)[0]["step"] + 5)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert process.returncode == 75 and "rank 1: asked to end" in output, output
    there = [said(0)[-1], *said(1)]
    last = max(one["step"] for one in there)
    left, owed = min(there, key=lambda one: one["step"]), sum(one["owed"] for one in there if one["step"] == last)
    assert left["owed"] != 0 and left["step"] < last, there
    assert sum(one["given"] for one in there) == there[0]["applied"] + owed, (there, output)


def test_a_job_of_slurm_saves_and_ends_with_75(tmp_path):
    if (lacking := clusters.lacks("slurmctld", "slurmd", "munged", "srun", "scancel")) is not None:
        pytest.skip(lacking)
    store = tmp_path / "store"
    with clusters.slurm(tmp_path) as variables:

        def cancel(process, ranks):
            (job,) = subprocess.run(["squeue", "-h", "-o", "%i"], capture_output=True, text=True).stdout.split()
            subprocess.run(["scancel", "--signal=TERM", job], check=True)

        step = asked([PROGRAM, "server", "--store", store, "--", "srun", "--nodes", 2, "--ntasks", 2, sys.executable,
                      JOBS / "clusters/asked.py", tmp_path, MANY], tmp_path, cancel, **variables)
    check_what_was_saved(store, step, tmp_path)


def test_a_jobset_that_is_suspended_saves_though_its_server_is_ended_too(tmp_path):
    """Kubernetes asks all pods at once."""
    manifest = (ROOT / "deploy" / "kubernetes" / "jobset.yaml").read_text()
    given = [flag for flag in re.findall(r"^ +- (--[\w-]+(?:=\S+)?)", manifest, re.M)
             if not flag.startswith(("--listen", "--network", "--trusted", "--store="))]
    assert "--store-patience=60" in given
    server = subprocess.Popen([PROGRAM, "server", "--listen=127.0.0.1:0", "--insecure", f"--store={tmp_path / 'store'}", *given],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
    address = server.stdout.readline().split()[-1]
    ranks = [subprocess.Popen([*map(str, python(JOBS / "clusters/asked.py")), tmp_path, str(MANY)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=environment(RANK=str(rank), WORLD_SIZE="2", RINGWOOD_COORDINATOR=address))
             for rank in range(2)]
    begun(tmp_path, ranks[0])
    for process in (server, *ranks):
        process.send_signal(signal.SIGTERM)
    outputs = [process.communicate(timeout=SECONDS)[0] for process in (*ranks, server)]
    assert "is complete" in outputs[0], outputs
    assert [process.returncode for process in (*ranks, server)] == [75, 75, 0], outputs


def test_a_handler_of_the_scripts_own_stays(tmp_path):
    script = tmp_path / "own.py"
    script.write_text("import signal\nhandler = lambda *_: None\nsignal.signal(signal.SIGTERM, handler)\n"
                      f"import sys\nsys.argv = ['', {str(tmp_path)!r}, '8']\n"
                      f"exec(open({str(JOBS / 'clusters' / 'asked.py')!r}).read())\n"
                      "assert signal.getsignal(signal.SIGTERM) is handler\n")
    ended = run([PROGRAM, "run", "-np", 2, "--", sys.executable, script])
    assert ended.code == 0, ended.output
