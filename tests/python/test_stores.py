"""Checkpoints that several servers share: jobs as users start them, killed whole and resumed."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import BUILD, JOBS, PROGRAM, environment, run, run_job
from test_membership import serving

TRAINER = BUILD / "bin" / "chaos_trainer"

LARGE = {"TRAIN_LARGE": str(1_500_000)}  # six pieces of 1 MiB


def stores(folder, count=2):
    return ("--servers", 2, "--store", folder, "--stores", count)


def listed(folder, *further):
    more = [word for each in further for word in ("--store", each)]
    return json.loads(run([PROGRAM, "checkpoint", "list", "--store", folder, *more, "--json"]).output)


def newest_two(store):
    """Step and stores of each. One older stays until the newest was read back, which no job waits for at its end."""
    found = [(each["step"], each["stores"]) for each in listed(store)]
    assert len(found) in (2, 3), found
    return found[:2]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The store of a job of three ranks that lost all its processes at once, after step 8."""
    folder = tmp_path_factory.mktemp("killed")
    run_job("train.py", folder / "out", "all", ranks=3, flags=stores(folder / "store"), code=75, **LARGE)
    found = listed(folder / "store")
    assert [(each["step"], each["stores"]) for each in found] == [(8, 2), (4, 2)], found
    return folder / "store"


def copy_of(store, folder):
    shutil.copytree(store, folder / "store")
    return folder / "store"


def test_a_job_that_lost_everything_ends_with_the_bits_of_one_that_did_not(killed, tmp_path):
    run_job("train.py", tmp_path / "whole", "nobody", ranks=3, flags=("--servers", 2), **LARGE)
    store = copy_of(killed, tmp_path)
    run_job("train.py", tmp_path / "resumed", "nobody", ranks=3, flags=(*stores(store), "--resume"), **LARGE)
    assert (tmp_path / "resumed").read_text() == (tmp_path / "whole").read_text()
    assert newest_two(store) == [(16, 2), (12, 2)]


def test_it_goes_on_in_a_smaller_world_as_from_one_store(killed, tmp_path):
    run_job("train.py", tmp_path / "out", "all", ranks=3, flags=stores(tmp_path / "one", 1), code=75, **LARGE)
    digests = []
    for number, flags in enumerate((stores(copy_of(killed, tmp_path)), stores(tmp_path / "one", 1))):
        out = tmp_path / f"out{number}"
        ended = run_job("train.py", out, "nobody", ranks=2, flags=(*flags, "--resume"), **LARGE)
        assert "resuming 2 workers from a checkpoint of 3" in ended.output or "resumed" in ended.output, ended.output
        digests.append(out.read_text())
    assert digests[0] == digests[1]


def test_a_store_that_is_gone_is_named_and_nothing_older_is_taken(killed, tmp_path):
    store = copy_of(killed, tmp_path)
    (store / "parts").rename(tmp_path / "parts")
    for count in (2, 1):
        ended = run_job("train.py", tmp_path / "out", "nobody", ranks=3,
                        flags=(*stores(store, count), "--resume", "--max-restarts", 2), code=78, **LARGE)
        assert "is in the store " in ended.output and "of server 1 (host localhost" in ended.output, ended.output
        assert "none of the stores of this job" in ended.output, ended.output
    shutil.rmtree(store / "parts", ignore_errors=True)
    (tmp_path / "parts").rename(store / "parts")
    run_job("train.py", tmp_path / "out", "nobody", ranks=3, flags=(*stores(store), "--resume"), **LARGE)


def test_the_commands_need_all_directories(killed, tmp_path):
    store = copy_of(killed, tmp_path)
    (tmp_path / "h2").mkdir()
    (store / "parts").rename(tmp_path / "h2" / "parts")
    shutil.copy2(store / "FORMAT", tmp_path / "h2")
    assert len(listed(store)) == 2
    shown = run([PROGRAM, "checkpoint", "show", "--store", store, "8"])
    assert shown.code == 0 and "part 1 of 2" in shown.output, shown.output
    alone = run([PROGRAM, "checkpoint", "verify", "--store", store])
    assert alone.code == 78 and "name it with a further --store" in alone.output, alone.output
    both = run([PROGRAM, "checkpoint", "verify", "--store", store, "--store", tmp_path / "h2"])
    assert both.code == 0 and both.output.count("good, every byte") == 2, both.output
    for further, code in (((), 78), (("--store", tmp_path / "h2"), 0)):
        ended = run([PROGRAM, "checkpoint", "export", "--store", store, *further, "--items", "*",
                     "--safetensors", tmp_path / "out.safetensors"])
        assert ended.code == code, ended.output
    assert (tmp_path / "out.safetensors").stat().st_size > 6_000_000
    pruned = run([PROGRAM, "checkpoint", "prune", "--store", store])
    assert pruned.code == 78 and "name it with a further --store" in pruned.output, pruned.output
    pruned = run([PROGRAM, "checkpoint", "prune", "--store", store, "--store", tmp_path / "h2"])
    assert pruned.code == 0 and "nothing to remove" in pruned.output, pruned.output


def test_more_stores_than_servers_are_refused(tmp_path):
    ended = run_job("train.py", tmp_path / "out", "nobody", flags=stores(tmp_path / "store", 3), code=78)
    assert "each server keeps one store at most" in ended.output, ended.output
    ended = run_job("train.py", tmp_path / "out", "nobody", flags=("--servers", 2, "--stores", 2), code=78)
    assert "--stores needs --store DIR" in ended.output, ended.output


def test_under_tls_and_with_ranks_that_are_read_where_they_lie(tmp_path):
    for flags in (("--tls",), ("--tls", "--transport", "grpc")):
        store = tmp_path / f"store{len(flags)}"
        ended = run_job("train.py", tmp_path / "out", "nobody", ranks=2, flags=(*stores(store), *flags), **LARGE)
        assert newest_two(store) == [(16, 2), (12, 2)], ended.output
        verified = run([PROGRAM, "checkpoint", "verify", "--store", store])
        assert verified.output.count("good, every byte") == len(listed(store)), verified.output


def test_a_deployment_has_one_store(tmp_path):
    ended = run([PROGRAM, "server", "--jobs", 2, "--coordinator", "127.0.0.1:1", "--insecure", "--store", tmp_path],
                RINGWOOD_TOKEN="a-secret-of-many-letters")
    assert ended.code == 78 and "leave out --store here" in ended.output, ended.output


def processes_with(*words):
    """Ids of the processes whose command line has all these."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if all(any(part.startswith(word) for part in line) for word in words):
            found.append(int(path.parent.name))
    return found


def test_an_elastic_job_goes_on_when_a_server_dies_with_a_part(tmp_path):
    store, log = tmp_path / "store", tmp_path / "log"
    with open(log, "wb") as said:
        job = subprocess.Popen(
            [str(word) for word in (PROGRAM, "run", "--elastic", "-np", 3, *stores(store), "--", TRAINER,
                                    tmp_path / "history", 5, 1000000, 10)],
            stdout=said, stderr=subprocess.STDOUT, env=environment(), start_new_session=True)

    def wait_beyond(step):
        deadline = time.monotonic() + 120
        while True:
            ended = run([PROGRAM, "checkpoint", "list", "--store", store, "--json"])
            complete = [each for each in json.loads(ended.output) if each["complete"]] if ended.code == 0 else []
            if complete and complete[0]["step"] > step and complete[0]["stores"] == 2:
                return complete[0]["step"]
            assert job.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.1)

    def kill_server():
        deadline = time.monotonic() + 120
        while not (found := processes_with(f"--store={store}", "--coordinator=")):  # it is being started again
            assert job.poll() is None and time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.1)
        os.kill(*found, signal.SIGKILL)

    try:
        newest = wait_beyond(0)
        for _ in range(3):
            kill_server()
            newest = wait_beyond(newest + 20)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        deadline = time.monotonic() + 60
        while processes_with(f"--store={store}"):  # the agents of the launcher end them
            assert time.monotonic() < deadline, log.read_text()[-4000:]
            time.sleep(0.05)
    verified = run([PROGRAM, "checkpoint", "verify", "--store", store])
    assert verified.code == 0 and "good, every byte" in verified.output, verified.output


def delete(store):
    """Deletes a store under its server, which may add a file to a folder that is just being emptied."""
    deadline = time.monotonic() + 60
    while store.exists():
        assert time.monotonic() < deadline, sorted(store.rglob("*"))
        shutil.rmtree(store, ignore_errors=True)


def test_a_store_that_begins_anew_says_again_where_its_server_is(tmp_path):
    store, history, secret = tmp_path / "store", tmp_path / "history", tmp_path / "secret"
    assert run([PROGRAM, "token", "new", "--out", secret]).code == 0
    with serving("--store", store, "--token-file", secret) as (_, address), subprocess.Popen(
            [sys.executable, JOBS / "pulled.py", history, "20", "1000"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env=environment(RANK="0", WORLD_SIZE="1", RINGWOOD_COORDINATOR=address,
                                       RINGWOOD_TOKEN_FILE=str(secret))) as rank:
        try:
            while not history.exists() or not history.read_text():
                assert rank.poll() is None, rank.communicate()[0]
                time.sleep(0.02)
            assert run([PROGRAM, "status", "--store", store]).code == 0
            delete(store)
            store.mkdir()
            deadline = time.monotonic() + 150
            while not (store / "address").exists():  # it comes with the next checkpoint
                assert rank.poll() is None and time.monotonic() < deadline, history.read_text()[-200:]
                time.sleep(0.1)
            told = run([PROGRAM, "status", "--store", store])
            assert told.code == 0 and "running, job" in told.output, told.output
            (tmp_path / "history.stop").touch()
            output, _ = rank.communicate(timeout=600)
            assert rank.returncode == 0, output
        finally:
            rank.kill()
