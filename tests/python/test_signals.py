"""Signals to `ringwood run`; loading the library leaves the host program's handlers as they are."""

import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import LIBRARY, PROGRAM, ROOT, environment

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
    ended = subprocess.run([sys.executable, "-c", CODE, LIBRARY], capture_output=True, text=True, timeout=120)
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
    job.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while list(stores.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(stores.iterdir())


def test_a_restart_finds_the_temporary_store_of_the_attempt_before(tmp_path):
    script = ('for store in "$TMPDIR"/ringwood-*; do [ "$RINGWOOD_RESTART" = 0 ] && touch "$store/mark" && kill -9 $$; '
              '[ -e "$store/mark" ] || exit 5; done')
    ended = subprocess.run([PROGRAM, "run", "-np", "1", "--max-restarts", "1", "--", "sh", "-c", script], cwd=ROOT,
                           env=environment(TMPDIR=str(tmp_path)), capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert "1 restart" in ended.stderr and not list(tmp_path.iterdir()), ended.stderr


@pytest.mark.parametrize("flag", ["--store", "--output-filename"])
def test_a_limit_of_the_size_of_files_is_an_error_with_a_name(tmp_path, flag):
    """`ulimit -f`, as batch systems set it; SIGXFSZ would kill without a word."""
    limited = 'ulimit -f 4; exec "$@"'
    path = tmp_path / "p"
    ended = subprocess.run(["bash", "-c", limited, "bash", PROGRAM, "run", "-np", "1", flag, path, "--", "sh", "-c",
                            "head -c 100000 /dev/zero | tr '\\0' '\\n'; sleep 1"],
                           cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120)
    assert "SIGXFSZ" not in ended.stderr and ended.returncode >= 0, ended.stderr
    if flag == "--output-filename":
        assert ended.stderr.count(f"{path}.rank0.log lacks some of the output: File too large") == 1, ended.stderr
        assert ended.stdout.count("\n") == 100000


def test_nohup_keeps_a_job_from_a_hang_up(tmp_path):
    job, _ = start(tmp_path, "nohup")
    os.kill(job.pid, signal.SIGHUP)
    (tmp_path / "go").touch()
    job.communicate(timeout=60)
    assert job.returncode == 0


def test_an_empty_tmpdir_is_none():
    ended = subprocess.run([PROGRAM, "run", "-np", "1", "--", "true"], cwd=ROOT, env=environment(TMPDIR=""),
                           capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0 and "checkpoints in /tmp/ringwood-" in ended.stderr, ended.stderr
