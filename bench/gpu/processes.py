"""Runs a command of the kit's so that nothing of it stays when it has ended or its time is up.

What a command starts may start more, in process sessions of its own. This process adopts what such processes leave
behind, so all of them stay below it and are found there."""

import ctypes
import os
import pathlib
import signal
import subprocess
import time

import stacks

ADOPT = 36  # PR_SET_CHILD_SUBREAPER
END_SECONDS = 20  # until killed processes are gone: a driver may hold one for some


def below(pid):
    """The processes that `pid` has started, and theirs."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:  # it has ended
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, unread = set(), [pid]
    while unread:
        mine = children.get(unread.pop(), [])
        found.update(mine)
        unread += mine
    return found


def end(others=frozenset()):
    """Kills all that is below this process but `others`; returns what would not go."""
    until = time.monotonic() + END_SECONDS
    while left := below(os.getpid()) - set(others):
        if time.monotonic() > until:
            return left
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
            except (ProcessLookupError, ChildProcessError):  # it has ended, or is not ours to wait for yet
                continue
        time.sleep(0.02)
    return set()


def run(command, environment, seconds, output):
    """The exit code, -N of a signal; None: it was stopped after `seconds`, and `output` ends with the stacks of all its
    threads. Whatever ends this call ends the command."""
    ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)
    others = below(os.getpid())
    process = subprocess.Popen([str(word) for word in command], env={**os.environ, **environment}, stdout=output,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        stacks.write(below(os.getpid()) - others, output)
        return None
    finally:
        end(others)
        process.poll()
