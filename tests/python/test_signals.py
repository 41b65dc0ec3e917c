"""Signals to `ringwood run`, and to servers that wait for a store which another one has open; loading the library leaves
the host program's handlers as they are."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from clusters import free_ports
from conftest import LIBRARY, PROGRAM, ROOT, environment
from test_membership import serving

SECONDS = 12  # for what takes a few on an idle machine

CODE = """
import ctypes, signal, sys

def masks():
    with open("/proc/self/status") as status:
        return [line for line in status if line.startswith(("SigIgn", "SigCgt"))]

signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
signal.signal(signal.SIGBUS, lambda *_: None)
before = masks()
ctypes.CDLL(sys.argv[1])
assert masks() == before, (before, masks())
print("same")
"""


def test_handlers_stay():
    ended = subprocess.run([sys.executable, "-c", CODE, LIBRARY], capture_output=True, text=True, timeout=600)
    assert ended.stdout.strip() == "same", ended.stderr


def start(tmp_path, *prefix):
    """A job of one rank that runs until the file `go` is there; its temporary store is in `stores`."""
    stores = tmp_path / "stores"
    stores.mkdir()
    script = f"echo up; while [ ! -e '{tmp_path}/go' ]; do sleep 0.05; done"
    job = subprocess.Popen([*prefix, PROGRAM, "run", "-np", "1", "--", "sh", "-c", script], cwd=ROOT,
                           env=environment(TMPDIR=str(stores)), stdout=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "up\n"
    assert len(list(stores.iterdir())) == 1
    return job, stores


@pytest.mark.parametrize("how", ["SIGKILL", "SIGQUIT"])
def test_a_killed_launcher_leaves_no_temporary_store(tmp_path, how):
    job, stores = start(tmp_path, "env", "--default-signal=QUIT")  # which a shell's background ignores
    job.send_signal(getattr(signal, how))
    job.communicate(timeout=600)
    deadline = time.monotonic() + 60
    while list(stores.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(stores.iterdir())


def test_a_restart_finds_the_temporary_store_of_the_attempt_before(tmp_path):
    script = ('for store in "$TMPDIR"/ringwood-*; do [ "$RINGWOOD_RESTART" = 0 ] && touch "$store/mark" && kill -9 $$; '
              '[ -e "$store/mark" ] || exit 5; done')
    ended = subprocess.run([PROGRAM, "run", "-np", "1", "--max-restarts", "1", "--", "sh", "-c", script], cwd=ROOT,
                           env=environment(TMPDIR=str(tmp_path)), capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    assert "1 restart" in ended.stderr and not list(tmp_path.iterdir()), ended.stderr


@pytest.mark.parametrize("flag", ["--store", "--output-filename"])
def test_a_limit_of_the_size_of_files_is_an_error_with_a_name(tmp_path, flag):
    """`ulimit -f`, as batch systems set it; SIGXFSZ would kill without a word."""
    limited = 'ulimit -f 4; exec "$@"'
    path = tmp_path / "p"
    ended = subprocess.run(["bash", "-c", limited, "bash", PROGRAM, "run", "-np", "1", flag, path, "--", "sh", "-c",
                            "head -c 100000 /dev/zero | tr '\\0' '\\n'; sleep 1"],
                           cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=600)
    assert "SIGXFSZ" not in ended.stderr and ended.returncode >= 0, ended.stderr
    if flag == "--output-filename":
        assert ended.stderr.count(f"{path}.rank0.log lacks some of the output: File too large") == 1, ended.stderr
        assert ended.stdout.count("\n") == 100000


def test_nohup_keeps_a_job_from_a_hang_up(tmp_path):
    job, _ = start(tmp_path, "nohup")
    os.kill(job.pid, signal.SIGHUP)
    (tmp_path / "go").touch()
    job.communicate(timeout=600)
    assert job.returncode == 0


def test_an_empty_tmpdir_is_none():
    ended = subprocess.run([PROGRAM, "run", "-np", "1", "--", "true"], cwd=ROOT, env=environment(TMPDIR=""),
                           capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0 and "checkpoints in /tmp/ringwood-" in ended.stderr, ended.stderr


@contextlib.contextmanager
def started(*flags):
    """`ringwood server` with all that it says on one pipe."""
    with subprocess.Popen([PROGRAM, "server", "--listen", "127.0.0.1:0", "--insecure", *map(str, flags)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment()) as process:
        try:
            yield process
        finally:
            process.kill()


def hears(process, text):
    said = []
    for line in process.stdout:
        said.append(line)
        if text in line:
            return
    pytest.fail(f"{text!r} was not said:\n" + "".join(said))


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_waits_for_a_store_ends_when_it_is_asked_to(tmp_path, how):
    with serving("--store", tmp_path / "store"), started("--store", tmp_path / "store", "--store-patience", 3600) as waits:
        hears(waits, "waiting for it")
        waits.send_signal(how)
        assert waits.wait(SECONDS) == 0


@pytest.fixture
def etcd(tmp_path):
    if shutil.which("etcd") is None:
        pytest.skip("etcd is not installed (Debian: etcd-server)")
    port = free_ports(2)
    clients, peers = (f"http://127.0.0.1:{each}" for each in (port, port + 1))
    with open(tmp_path / "etcd.log", "w") as log, subprocess.Popen(
            ["etcd", "--data-dir", tmp_path / "etcd", "--listen-client-urls", clients, "--advertise-client-urls", clients,
             "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"],
            stdout=log, stderr=log) as process:
        yield f"etcd://127.0.0.1:{port}/job"
        process.kill()


@pytest.fixture
def leader_and_standby(etcd, tmp_path):
    """The leader stands still and has the store open; the standby leads and waits for it."""
    flags = ("--coord-store", etcd, "--store", tmp_path / "store", "--failure-timeout", 2)
    with started(*flags) as leader:
        hears(leader, "listening on")
        with started(*flags) as standby:
            hears(standby, "stands by")
            leader.send_signal(signal.SIGSTOP)
            hears(standby, "waiting for it")
            yield leader, standby


def test_a_standby_waits_for_the_store_of_the_leader_before_it(leader_and_standby):
    leader, standby = leader_and_standby
    leader.send_signal(signal.SIGCONT)
    hears(standby, "listening on")
    standby.terminate()
    assert standby.wait(SECONDS) == 0


def test_a_standby_that_waits_for_a_store_ends_when_it_is_asked_to(leader_and_standby):
    _, standby = leader_and_standby
    standby.terminate()
    assert standby.wait(SECONDS) == 0


# A process that somebody started by hand: Ctrl-C raises KeyboardInterrupt, at once where the call waits for others.
ALONE = """
import ringwood, sys
if sys.argv[1] == "pull":
    call = ringwood.pull
elif sys.argv[1] == "torch":
    import ringwood.torch
    call = ringwood.torch.init
else:
    call = ringwood.Session
print("waits", flush=True)
call()
"""

STOPPED = """
import numpy, sys, ringwood
session, gradient = ringwood.Session(), numpy.ones(1000, numpy.float32)
session.register("weights", gradient)
def step():
    session.ready("weights")
    session.finish_step()
waits = {"finish_step": step, "allreduce": lambda: session.allreduce(gradient)}[sys.argv[1]]
waits()
print("waits", flush=True)
try:
    if session.rank == 0:
        input()
    waits()
except KeyboardInterrupt:
    print("stopped", session.closed, flush=True)
    input()  # as a prompt, which goes on
"""


def heed_ctrl_c():
    """As a terminal starts a program: a shell lets what it starts with & ignore the signal, these tests among them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def by_hand(stack, address, rank, script, *words, **changes):
    """A rank of two, which nobody started but a user; it comes to where it waits. No `address`: no server is named."""
    named = {"RINGWOOD_COORDINATOR": address} if address else {}
    process = stack.enter_context(subprocess.Popen(
        [sys.executable, "-c", script, *words], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, preexec_fn=heed_ctrl_c,
        env=environment(RANK=str(rank), WORLD_SIZE="2", RINGWOOD_JOIN_TIMEOUT="1000", **named, **changes)))
    stack.callback(process.kill)
    limit = threading.Timer(SECONDS, process.kill)
    stack.callback(limit.cancel)
    limit.start()
    return process


def stops(process):
    """It waits, or is about to."""
    hears(process, "waits")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == -signal.SIGINT and "KeyboardInterrupt" in said, said


def test_ctrl_c_ends_a_rank_that_waits_for_the_others():
    with contextlib.ExitStack() as stack:
        _, address = stack.enter_context(serving())
        stops(by_hand(stack, address, 0, ALONE, "session"))


def test_ctrl_c_ends_a_pull(tmp_path):
    """Of a job that never saves."""
    with contextlib.ExitStack() as stack:
        _, address = stack.enter_context(serving("--store", tmp_path / "store"))
        for rank in [by_hand(stack, address, rank, STOPPED, "finish_step") for rank in (0, 1)]:
            hears(rank, "waits")
        stops(by_hand(stack, address, 0, ALONE, "pull"))


@pytest.mark.parametrize("store", ["dumb", "empty"])
def test_ctrl_c_ends_a_wait_at_torchs_store(store):
    """Of one that does not answer, and of one where rank 0 has not said where its server is."""
    distributed = pytest.importorskip("torch.distributed")
    with socket.create_server(("127.0.0.1", 0)) as dumb:
        served = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        port = served.port if store == "empty" else dumb.getsockname()[1]
        with contextlib.ExitStack() as stack:
            stops(by_hand(stack, None, 1, ALONE, "torch", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                          TORCHELASTIC_USE_AGENT_STORE="True"))


@pytest.mark.parametrize("call, flags", [("finish_step", ()), ("allreduce", ()), ("finish_step", ("--elastic",))])
def test_ctrl_c_ends_a_call_that_waits_and_the_others_hear_why(call, flags):
    with contextlib.ExitStack() as stack:
        _, address = stack.enter_context(serving(*flags))
        other, stopped = [by_hand(stack, address, rank, STOPPED, call) for rank in (0, 1)]
        for rank in (other, stopped):
            hears(rank, "waits")
        time.sleep(0.5)
        stopped.send_signal(signal.SIGINT)
        hears(stopped, "stopped True")
        if not flags:
            _, said = other.communicate("\n", timeout=SECONDS)
            assert other.returncode == 75 and "rank 1" in said and "KeyboardInterrupt" in said, said
