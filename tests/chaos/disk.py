"""The store's disk is full for a time, or the store is deleted, under the PyTorch example: training goes on, the alarm
says what to do, and checkpoints are kept again when it is done.

The example is examples/fashion_mnist.py with the launcher's own server. A full disk is a small tmpfs (root only), filled
by somebody else. What is deleted begins anew in an empty folder.
"""

import json
import pathlib
import re
import shutil
import subprocess
import time

from job import PROGRAM, PYTHON, ROOT, Missed, Process, environment, patiently
from startup.warm import python

LIMIT = 300  # seconds: processes that import PyTorch on a busy machine
DATA = "/usr/share/datasets/fashion-mnist"  # of the example
EVERY = 4  # steps between checkpoints
PASSES = 16  # over the images, of 8 steps
DISK = "160m"  # a checkpoint of the example takes about 25 MB, and three are there at once


class Training:
    """The example on a store."""

    def __init__(self, folder, store):
        self.store = store
        self.launcher = Process([PROGRAM, "run", "-np", 2, "--store", store, "--",
                                 *python(ROOT / "examples" / "fashion_mnist.py"), "--limit", 1000, "--epochs", PASSES,
                                 "--checkpoint-every", EVERY], folder / "run.log", **PYTHON)
        self._seen = {}  # steps of complete checkpoints -> when they were seen

    def said(self):
        return self.launcher.log.read_text(errors="replace")

    def wait(self, holds, what):
        """What `holds()` returns when it is something; the training may have ended meanwhile, and not before."""
        found = None

        def ended_or_holds():
            nonlocal found
            ended = self.launcher.code is not None
            found = holds()
            return found or ended

        patiently(ended_or_holds, what, LIMIT, self.said)
        if not found:
            raise Missed(f"the training ended with {self.launcher.code} before: {what}\n{self.said()}")
        return found

    def newest(self):
        """Step of the newest complete checkpoint in the store, None for none."""
        listed = subprocess.run([PROGRAM, "checkpoint", "list", "--store", self.store, "--json"], capture_output=True,
                                text=True, env=environment(), timeout=600)
        if listed.returncode:
            return None
        return next((each["step"] for each in json.loads(listed.stdout) if each["complete"]), None)

    def wait_for_checkpoints(self, more):
        """So many that were not there yet."""
        for _ in range(more):
            before = self.newest()
            step = self.wait(lambda: (now := self.newest()) != before and now, "no further checkpoint")
            self._seen[step] = time.monotonic()

    def interval(self):
        times = sorted(self._seen.values())
        return max(later - earlier for earlier, later in zip(times, times[1:]))

    def alarm(self, words):
        """Seconds until a checkpoint fails for this reason."""
        when, before = time.monotonic(), len(self.said())
        self.wait(lambda: re.search(rf"THE CHECKPOINT OF STEP \d+ FAILED.*{words}", self.said()[before:]),
                  f"no alarm with \"{words}\"")
        return time.monotonic() - when

    def finish(self):
        """To its end in order, with the newest checkpoint in the store."""
        patiently(lambda: self.launcher.code is not None, "the training does not end", LIMIT, self.said)
        if self.launcher.code != 0:
            raise Missed(f"the training ended with {self.launcher.code}\n{self.said()}")
        if "failed so far, training continues" not in self.said():
            raise Missed(f"no rank says that a checkpoint failed\n{self.said()}")
        newest = self.newest()
        if newest is None or newest < max(self._seen):
            raise Missed(f"the checkpoint of step {max(self._seen)} was there, the newest is now {newest}")


def fill(disk):
    """Returns what takes all the room that is left."""
    ballast = disk / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError:
            return ballast


def full(folder):
    disk = folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", disk], capture_output=True).returncode:
        return None
    training = Training(folder, disk / "store")
    try:
        training.wait_for_checkpoints(2)
        ballast = fill(disk)
        late = training.alarm("free space on this disk")
        ballast.unlink()
        training.wait_for_checkpoints(2)
        training.finish()
        return late, training.interval()
    finally:
        training.launcher.end()
        subprocess.run(["umount", "-l", disk], check=True)


def deleted(folder):
    training = Training(folder, folder / "store")
    try:
        training.wait_for_checkpoints(2)
        while training.store.exists():
            shutil.rmtree(training.store, ignore_errors=True)
        late = training.alarm("was deleted, or its disk is gone")
        training.store.mkdir()
        training.wait_for_checkpoints(2)
        training.finish()
        return late, training.interval()
    finally:
        training.launcher.end()


def run(_, folder):
    """Prints the figures; returns the findings."""
    found = []
    for how in (full, deleted):
        place = pathlib.Path(folder) / how.__name__
        place.mkdir(parents=True)
        try:
            figures = how(place)
        except Missed as missed:
            found.append(f"{how.__name__}: {missed}")
            continue
        if figures is None:
            print(f"  {how.__name__}: skipped, as mounting a small disk needs root", flush=True)
            continue
        late, interval = figures
        print(f"  {how.__name__}: the alarm came after {late:.2f} s, with up to {interval:.2f} s between checkpoints; "
              "training went on to its end, and checkpoints were kept again", flush=True)
    return found
