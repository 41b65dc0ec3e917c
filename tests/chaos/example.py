"""examples/elastic.py under `ringwood run --elastic`, as a user starts it: the launcher starts killed ranks again."""

import os
import pathlib
import signal
import sys
import time

import check
from job import PROGRAM, PYTHON, ROOT, History, Missed, Process, patiently

LIMIT = 300  # seconds: processes that import PyTorch while others train


class ExampleRank(History):
    """A process of the example, which the launcher has started."""

    def __init__(self, path):
        super().__init__(path)
        self.rank, self.pid = (int(number) for number in self.path.name.split(".")[1:])

    @property
    def code(self):
        """None while it lives."""
        try:
            return None if self._state() not in ("Z", "X") else -1
        except (FileNotFoundError, ProcessLookupError):
            return -1

    @property
    def start(self):
        """When it was about to join: what came before is its own start-up."""
        return self.events[0]["time"] if self.events else None

    def end(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _state(self):
        return pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]


class ExampleJob:
    """`ranks`: rank -> its present process; `everyone`: all that there were."""

    def __init__(self, folder, ranks, failure_timeout=5.0, elastic=True, grace=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.world, self.faults = ranks, 0
        self.ranks, self.everyone = {}, []
        self.launcher = Process(
            [PROGRAM, "run", *(["--elastic"] if elastic else []), "-np", ranks, "--failure-timeout", failure_timeout,
             *(["--straggler-grace", grace] if grace else []), "--max-restarts", 100, "--", sys.executable, ROOT / "examples" / "elastic.py", "--synthetic", "--limit",
             1000, "--epochs", 100000, "--history", self.folder / "history"], self.folder / "run.log", **PYTHON)
        self.wait(lambda: len(self.look()) == ranks, "not all ranks start")

    def look(self):
        """The ranks, with the processes that have come since."""
        known = {each.path for each in self.everyone}
        for path in sorted(set(self.folder.glob("history.*")) - known, key=lambda path: path.stat().st_mtime):
            each = ExampleRank(path)
            self.everyone.append(each)
            self.ranks[each.rank] = each
        return self.ranks

    def wait(self, holds, what):
        def lives_and_holds():
            if self.launcher.code is not None:
                raise Missed(f"`ringwood run` ended with {self.launcher.code}\n{self.said()}")
            return holds()

        patiently(lives_and_holds, what, LIMIT, self.said)

    def wait_for_steps(self, more=20):
        goals = {each: len(each.steps) + more for each in self.ranks.values()}
        self.wait(lambda: all(len(each.steps) >= goal for each, goal in goals.items()),
                  f"not {more} further steps on every rank")

    def said(self):
        return "\n".join(f"  {line}" for line in self.launcher.log.read_text(errors="replace").splitlines()[-20:])

    def histories(self):
        return [check.read(each.path) for each in self.everyone]

    def findings(self):
        return check.check(self.histories(), self.faults)

    def finish(self):
        """The example has no end of its own here."""
        self.launcher.send(signal.SIGTERM)
        patiently(lambda: self.launcher.code is not None, "`ringwood run` does not end", LIMIT, self.said)

    def close(self):
        self.launcher.end()
        for each in self.everyone:
            each.end()


def kill_example(campaign, job):
    """The survivors' processes stay; the launcher's new one is whole some time after its own start-up."""
    victim = job.ranks.pop(campaign.random.choice(sorted(job.ranks)))
    survivors = list(job.ranks.values())
    when = time.monotonic()
    victim.end()
    pause = campaign.after(job, when, survivors)
    job.wait(lambda: victim.rank in job.look(), f"rank {victim.rank} is not started again")
    newcomer = job.ranks[victim.rank]
    whole = campaign.whole_again(job, when)
    if gone := [each.pid for each in survivors if each.code is not None]:
        raise Missed(f"the processes {gone}, which were not killed, have ended\n{job.said()}")
    if len(job.ranks) != job.world or any(each not in job.ranks.values() for each in survivors):
        raise Missed(f"the launcher started other ranks than rank {victim.rank} again\n{job.said()}")
    campaign.wholes.append(whole - newcomer.start)
    campaign.startups.append(newcomer.start - when)
    return pause
