"""After the loss of all processes a job with an update log goes on from the last committed step."""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from conftest import JOBS, PROGRAM, ROOT, environment, run

STEPS, EVERY = 60, 25


def family(root):
    """The process and all that come from it."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    found = [root]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def kill_all(root):
    """At one instant: stopped first, so that none sees another's end."""
    processes = family(root)
    for sent in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            try:
                os.kill(process, sent)
            except ProcessLookupError:
                pass


class Life:
    """One start of the job."""

    def __init__(self, folder, number, kind, ranks):
        self.history = folder / f"history{number}"
        self.command = [PROGRAM, "run", "-np", ranks, "--store", folder / "store", "--update-log", "--resume=auto", "--",
                        sys.executable, JOBS / "logged.py", self.history, kind, STEPS, EVERY]

    def events(self):
        found = []
        for path in self.history.parent.glob(self.history.name + ".*"):
            for line in path.read_text().splitlines():
                try:
                    found.append(json.loads(line))
                except ValueError:
                    pass  # torn by the kill
        return found

    def of(self, kind):
        return [event for event in self.events() if event["event"] == kind]

    def kill_after(self, step):
        with open(f"{self.history}.log", "wb") as log:
            process = subprocess.Popen([str(word) for word in self.command], cwd=ROOT, stdout=log, stderr=log,
                                       env=environment(), start_new_session=True)
        deadline = time.monotonic() + 120
        while max((event["step"] for event in self.of("step")), default=0) < step:
            assert process.poll() is None and time.monotonic() < deadline, \
                pathlib.Path(f"{self.history}.log").read_text()[-4000:]
            time.sleep(0.01)
        kill_all(process.pid)
        process.wait()


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_no_committed_step_is_lost(tmp_path, kind):
    lived, last = {}, 0
    chosen = random.Random(kind)
    for number, step in enumerate([chosen.randrange(3, 20), chosen.randrange(28, 45), None]):
        life = Life(tmp_path, number, kind, 2)
        if step is None:
            ended = run(life.command)
            assert ended.code == 0, ended.output
        else:
            life.kill_after(step)
        opened = life.of("open")
        assert len(opened) == 2
        for event in opened:
            assert event["resumed"] == (number > 0)
            # The last logged step may not have been committed anywhere: it is now.
            assert event["step"] in (last, last + 1), f"began after step {event['step']}, committed were {last}"
            assert lived.setdefault(event["step"], event["digest"]) == event["digest"]
        for event in life.of("step"):
            assert lived.setdefault(event["step"], event["digest"]) == event["digest"]
        last = max(event["step"] for event in [*life.of("step"), *opened])
    assert last == STEPS and len(life.of("end")) == 2


def test_a_loop_that_changes_gradients_says_so_when_it_is_replayed(tmp_path):
    Life(tmp_path, 0, "adam", 1).kill_after(5)
    life = Life(tmp_path, 1, "adam", 1)
    text = (JOBS / "logged.py").read_text().replace("rw.resume(model, optimizer, before_step=clip)",
                                                    "rw.resume(model, optimizer)")
    (tmp_path / "tests").mkdir()
    script = tmp_path / "tests" / "forgetful.py"
    script.write_text(text.replace('__file__.rsplit("/tests/", 1)[0]', repr(str(ROOT))))
    life.command[life.command.index(JOBS / "logged.py")] = script
    ended = run(life.command)
    assert ended.code != 0 and "Give before_step=" in ended.output, ended.output


def newest_checkpoint(folder):
    listed = run([PROGRAM, "checkpoint", "list", "--store", folder / "store", "--json"])
    return max(found["step"] for found in json.loads(listed.output) if found["complete"])


def test_without_the_log_the_steps_after_the_checkpoint_are_given_up(tmp_path):
    Life(tmp_path, 0, "adam", 1).kill_after(EVERY + 5)
    newest = newest_checkpoint(tmp_path)
    life = Life(tmp_path, 1, "adam", 1)
    life.command.remove("--update-log")
    ended = run(life.command)
    assert ended.code == 0 and "logged rounds after step" in ended.output, ended.output
    opened, = life.of("open")
    assert opened["step"] == newest
    newest = newest_checkpoint(tmp_path)
    again = Life(tmp_path, 2, "adam", 1)
    ended = run(again.command)
    assert ended.code == 0, ended.output
    assert again.of("open")[0]["step"] == newest  # nothing of the first life
