"""What ranks are told of each other: who is waited for, who stands still, who ended early."""

import contextlib
import fcntl
import os
import re
import resource
import socket
import subprocess
import sys

import pytest

from conftest import JOBS, PROGRAM, environment, run, run_job

RESTART, CONFIGURATION = 75, 78
FULL = 8192  # bytes of a pipe: for a line, and for the one that says what is missing


@contextlib.contextmanager
def serving(*flags, descriptors=None, **changes):
    """`ringwood server`, with so many descriptors at most: its process and its address."""
    limit = None if descriptors is None else (
        lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors)))
    with subprocess.Popen([PROGRAM, "server", "--listen", "127.0.0.1:0", "--insecure", *map(str, flags)],
                          stdout=subprocess.PIPE, text=True, env=environment(**changes),
                          preexec_fn=limit) as process:
        try:
            line = process.stdout.readline()
            assert "listening on" in line, line
            yield process, line.split()[-1]
        finally:
            process.terminate()
            process.wait(60)


def errors_in(ended, least):
    """The lines by which ranks end with an error of Ringwood's; so many at least."""
    told = [line for line in ended.output.splitlines() if "ringwood.errors." in line]
    assert len(told) >= least, ended.output
    return told


@pytest.fixture
def server():
    with serving() as (_, address):
        yield address


@pytest.mark.parametrize("limit", [14, 30])
@pytest.mark.parametrize("command", [[PROGRAM, "server", "--insecure"], [sys.executable, JOBS / "failing.py", "exit"]])
def test_a_process_that_may_open_too_few_files_says_so_before_it_starts(server, command, limit):
    ended = run(["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *command], RANK="0", WORLD_SIZE="1",
                RINGWOOD_COORDINATOR=server)
    assert ended.code == CONFIGURATION, ended.output
    assert f"this process may open {limit} files (ulimit -Hn) and needs" in ended.output


def test_a_rank_that_stands_still_is_named_and_ends_the_job_where_asked():
    ended = run_job("standing.py", ranks=3, flags=("--stall-timeout", 4), code=RESTART)
    for line in errors_in(ended, 1):
        assert "rank 1" in line and "1 of 2 gradients ready" in line, ended.output


def test_a_rank_that_ends_well_without_joining_ends_the_job_that_waits_for_it():
    ended = run([PROGRAM, "run", "-np", "2", "--join-timeout", "60", "--", "sh", "-c",
                 'test $RANK = 1 || exec "$@"', "sh", sys.executable, JOBS / "failing.py", "exit"])
    assert ended.code == CONFIGURATION, ended.output
    assert "rank 1 (host localhost) failed first: it exited with code 0, and the others wait for it to join" in ended.output


def test_a_rank_that_ends_early_is_named_and_not_called_dead():
    ended = run_job("failing.py", "early", ranks=3, code=CONFIGURATION)
    for line in errors_in(ended, 2):
        assert "rank 1 (host localhost) failed" in line, ended.output
        assert "left after step 3 while others train on" in line, ended.output


def test_a_call_that_one_rank_makes_ends_the_job_and_names_it():
    ended = run_job("failing.py", "call", ranks=3, flags=("--failure-timeout", 1), code=CONFIGURATION)
    assert "waiting for rank 1 (host localhost), 0 of 1 gradients ready; rank 1 (host localhost) waits in a call" in ended.output
    for line in errors_in(ended, 3):
        assert "rank 1 (host localhost) failed" in line and "make the call on every rank" in line, ended.output


def test_a_checkpoint_that_one_rank_makes_ends_the_job_at_the_next_step():
    ended = run_job("failing.py", "save", ranks=3, code=CONFIGURATION)
    for line in errors_in(ended, 3):
        assert ("rank 1 (host localhost) has begun a checkpoint before step 4, and rank 0 (host localhost) none: every rank "
                "must save") in line, ended.output


def test_a_rank_that_left_is_named_where_others_wait_for_it_in_a_call():
    ended = run_job("failing.py", "last", ranks=3, code=CONFIGURATION)
    for line in errors_in(ended, 2):
        assert "rank 1 (host localhost) failed" in line, ended.output
        assert re.search(r"it left after step 6 while rank [02] \(host localhost\) waits in a call", line), ended.output


def test_who_waits_for_others_to_join_says_for_whom(server):
    ended = run([sys.executable, JOBS / "failing.py", "exit"], RANK="0", WORLD_SIZE="3",
                RINGWOOD_COORDINATOR=server, RINGWOOD_JOIN_TIMEOUT="6")
    assert ended.code == RESTART, ended.output
    assert "1 of 3 ranks joined, waiting for ranks 1, 2" in ended.output


def test_who_finds_no_coordinator_says_so_before_it_gives_up():
    with socket.socket() as nobody:  # bound, and listens to nobody
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        ended = run([sys.executable, JOBS / "failing.py", "exit"], RANK="0", WORLD_SIZE="2",
                    RINGWOOD_COORDINATOR=address, RINGWOOD_JOIN_TIMEOUT="6")
    assert ended.code == RESTART, ended.output
    assert f"no coordinator answers at {address} yet" in ended.output


def test_status_shows_who_is_waited_for(server):
    with subprocess.Popen([sys.executable, JOBS / "failing.py", "exit"], stderr=subprocess.PIPE, text=True,
                          env=environment(RANK="1", WORLD_SIZE="2", RINGWOOD_COORDINATOR=server)) as rank:
        try:
            said = rank.stderr.readline()
            assert "1 of 2 ranks joined, waiting for rank 0" in said
            status = run([PROGRAM, "status", "--coordinator", server])
            assert status.code == 0 and "1 of 2 ranks joined, waiting for rank 0" in status.output, status.output
        finally:
            rank.kill()


def test_status_of_a_job_with_a_token_is_for_who_may_read_its_store(tmp_path):
    store = tmp_path / "store"
    with serving("--store", store, RINGWOOD_TOKEN="the-token-of-this-job") as (_, address):
        status = (PROGRAM, "status", "--coordinator", address)
        refused = run(status)
        assert refused.code == CONFIGURATION and "RINGWOOD_TOKEN" in refused.output, refused.output
        assert run(status, RINGWOOD_TOKEN="the-token-of-this-job").code == 0
        told = run((*status, "--store", store))
        assert told.code == 0 and "no rank has joined" in told.output, told.output
        assert (store / "token").stat().st_mode & 0o777 == 0o600
    assert not (store / "token").exists()


@contextlib.contextmanager
def nobody_reads():
    """The ends of a pipe that is full."""
    reader, writer = os.pipe()
    try:
        assert fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, FULL) == FULL
        os.write(writer, b"." * (FULL - 1) + b"\n")
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("unread", ["stdout", "stderr"])
def test_a_server_whose_output_nobody_reads_serves_on(unread, tmp_path):
    """It says where it listens, and how each job ended, on standard output and error."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"

    def fail():
        ended = run([sys.executable, "-c", "import ringwood\nwith ringwood.Session(): raise ValueError('on purpose')"],
                    RANK="0", WORLD_SIZE="1", RINGWOOD_COORDINATOR=address, RINGWOOD_JOIN_TIMEOUT="10")
        assert ended.code == 1 and "ValueError: on purpose" in ended.output, ended.output

    with nobody_reads() as (reader, writer), open(tmp_path / "read", "w+", encoding="utf-8") as read:
        streams = {"stdout": read, "stderr": read, unread: writer}
        with subprocess.Popen([PROGRAM, "server", "--listen", address, "--insecure"], env=environment(), **streams) as server:
            try:
                fail()
                fail()
                os.read(reader, FULL)
                fail()
            finally:
                server.kill()
        told = os.read(reader, FULL).decode() + (tmp_path / "read").read_text()
    assert re.search(r"nobody read standard (output|error) for a while: \d+ lines before", told), told


def resident(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


def test_idle_connections_do_not_wedge_a_server_with_few_descriptors(tmp_path):
    with contextlib.ExitStack() as stack:
        process, address = stack.enter_context(serving("--store", tmp_path / "store", descriptors=256))
        host, port = address.split(":")
        before = resident(process)
        for _ in range(400):
            stack.enter_context(socket.create_connection((host, int(port))))
        held = resident(process)
        ended = run([sys.executable, JOBS / "failing.py", "nothing"], RANK="0", WORLD_SIZE="1",
                    RINGWOOD_COORDINATOR=address)
        assert ended.code == 0, ended.output
        print(f"400 idle connections, 256 descriptors: {before} MB before, {held} MB with them")
