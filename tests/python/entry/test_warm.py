"""A script that is started in a fork of a process with PyTorch is none the wiser."""

import pathlib
import subprocess
import sys
import time

import pytest

from conftest import environment, python

SCRIPT = """# torch
import atexit, os, random, sys
atexit.register(print, "at the end")
print(__name__, __file__, sys.argv, sys.path[0], os.getcwd(), sorted(os.environ), flush=True)
print(sys.stdin.read(), file=sys.stderr)
def inner():
    {}
inner()
"""
ENDS = {"well": "pass", "raises": "raise ValueError('ö')", "says": "sys.exit('why')", "code": "sys.exit(7)",
        "kills": "os.kill(os.getpid(), 9)", "waits": "__import__('time').sleep(600)"}


@pytest.fixture(params=ENDS)
def script(request, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(ENDS[request.param]))
    return request.param, path


def started(words, **options):
    return subprocess.Popen([*map(str, words), "a", "b"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.STDOUT, env=environment(LANG="C.UTF-8"), **options)


def ended(words, how, **options):
    with started(words, **options) as process:
        process.stdin.write("given")
        process.stdin.close()
        said = process.stdout.read() if how != "waits" else process.stdout.readline()
        if how == "waits":
            process.terminate()
        return process.wait(60), said.replace("'RINGWOOD_WARM', ", "")


def test_it_ends_as_in_a_python_of_its_own(script, tmp_path):
    how, path = script
    assert ended(python(path), how, cwd=tmp_path) == ended([sys.executable, path], how, cwd=tmp_path)


def test_it_is_killed_with_the_one_who_asked_for_it(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("# torch\nimport os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    with started(python(path)) as process:
        fork = int(process.stdout.readline())
        assert fork != process.pid
        process.kill()
        assert process.stdout.read() == "", "the fork's file is closed"
    deadline = time.monotonic() + 60
    while pathlib.Path(f"/proc/{fork}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
