"""kill -9 of all processes of a job with an update log, at random instants, again and again.

Each time all is started again: checkpoint and log must make the state, weights and optimizer to the bit, of the last
step that any rank had committed, or of the one after it, which was logged and not committed anywhere yet. The trainer
is logged.py: SGD with momentum over sparse tensors, Adam, AdamW.
"""

import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import time

from job import PROGRAM, PYTHON, ROOT, Missed, environment

KINDS = ("sgd", "adam", "adamw")
EVERY = 40  # steps between checkpoints
SECONDS = 1.5  # a life lasts at most so long from its first step on


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
    while any(map(lives, processes)):  # the store stays locked until then
        time.sleep(0.01)


def lives(process):
    place = pathlib.Path(f"/proc/{process}")
    try:
        # A process whose first thread is a zombie holds its files until its other threads have ended, too.
        return (place / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX" or len(list((place / "task").iterdir())) > 1
    except OSError:
        return False


class Life:
    """One start of the job, until it ends or is killed."""

    def __init__(self, folder, number, kind, ranks, steps, every=EVERY):
        self.history = pathlib.Path(folder) / f"history{number}"
        self.log = self.history.with_suffix(".log")
        self.script = ROOT / "tests" / "chaos" / "logged.py"
        self.flags = ["--store", pathlib.Path(folder) / "store", "--update-log", "--resume=auto"]
        self.ranks, self.arguments = ranks, [kind, steps, every]
        self.process = None

    def start(self):
        command = [PROGRAM, "run", "-np", self.ranks, *self.flags, "--", sys.executable, self.script, self.history,
                   *self.arguments]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdout=log, stderr=log,
                                            env=environment(**PYTHON), start_new_session=True)

    def said(self):
        return self.log.read_text(errors="replace")

    def of(self, event):
        return [each for _, each in self.events() if each["event"] == event]

    def events(self):
        """(rank, event) of all that was written."""
        for path in self.history.parent.glob(self.history.name + ".[0-9]*"):
            rank = int(path.name.split(".")[-2])
            for line in path.read_text().splitlines():
                try:
                    yield rank, json.loads(line)
                except ValueError:
                    pass  # torn by the kill

    def wait_for(self, step):
        deadline = time.monotonic() + 240
        while max((event["step"] for event in self.of("step")), default=0) < step:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Missed(f"step {step} does not come:\n{self.said()[-4000:]}")
            time.sleep(0.01)

    def kill(self):
        kill_all(self.process.pid)
        self.process.wait()

    def end(self, limit=240):
        """Its exit code."""
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Missed(f"it was still running after {limit} s:\n{self.said()[-4000:]}") from None


class Memory:
    """What was committed, over all lives."""

    def __init__(self):
        self.digests, self.last = {}, 0

    def check(self, life, resumed):
        """Raises Missed if a step was lost, or has other bits than it had."""
        opened = life.of("open")
        for event in opened:
            if event["resumed"] != resumed or event["step"] not in (self.last, self.last + 1):
                raise Missed(f"rank {event['rank']} begins after step {event['step']}, committed were {self.last}:\n"
                             f"{life.said()[-2000:]}")
        for event in [*opened, *life.of("step")]:
            if self.digests.setdefault(event["step"], event["digest"]) != event["digest"]:
                raise Missed(f"step {event['step']} made {self.digests[event['step']]}, and {event['digest']} later")
        self.last = max([self.last, *(event["step"] for event in [*opened, *life.of("step")])])


def replayed(life):
    """(steps, seconds) of the replay that it began with; None without one."""
    found = re.search(r"and (\d+) logged steps replayed in ([\d.]+) s", life.said())
    return found and (int(found[1]), float(found[2]))


def run(options, folder):
    """What was found."""
    found = []
    for kind in KINDS:
        chosen = random.Random(f"{options.seed} {kind}")
        memory, replays, kills = Memory(), [], 0
        (folder / kind).mkdir(parents=True)
        try:
            for number in range(options.lives):
                life = Life(folder / kind, number, kind, options.ranks, 10**6)
                life.start()
                life.wait_for(memory.last + 1)
                time.sleep(chosen.uniform(0, SECONDS))
                life.kill()
                kills += 1
                memory.check(life, resumed=number > 0)
                replays.append(replayed(life))
        except Missed as missed:
            found.append(f"{kind}, life {kills + 1}: {missed}")
        rates = [count / seconds for count, seconds in filter(None, replays) if seconds > 0]
        rate = f"{statistics.median(rates):.0f} steps/s" if rates else "none"
        print(f"updates: {kind}: {kills} of {options.lives} kills of all {options.ranks} ranks and the server, "
              f"{memory.last} steps committed, {'none lost' if not found else 'see below'}; replay {rate}", flush=True)
    return found
