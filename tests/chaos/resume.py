"""kill -9 of all processes of a job that makes checkpoints, at random instants, again and again.

Each time all is started again and resumes from the newest checkpoint. Every step of every rank, weights, buffers,
optimizer, schedule, average and residuals, must have the bits that the same step has in a run that nothing disturbs.
The trainer is resumed.py: SGD with BatchNorm and dropout, AdamW.
"""

import random
import time

from job import ROOT, Missed
from updates import Life

KINDS = ("sgd", "adamw")
EVERY = 10  # steps between checkpoints
SECONDS = 1.0  # a life lasts at most so long from its first step on
LAST = 2 * EVERY  # steps after the last kill


class ResumedLife(Life):
    def __init__(self, folder, number, kind, ranks, steps):
        super().__init__(folder, number, kind, ranks, steps, EVERY)
        self.script = ROOT / "tests" / "chaos" / "resumed.py"
        self.flags.remove("--update-log")

    def digests(self):
        """(rank, step) -> digest, of what it began with and of each step."""
        return {(rank, event["step"]): event["digest"] for rank, event in self.events() if "digest" in event}

    def complete(self):
        if self.end() != 0:
            raise Missed(f"it ends with {self.process.returncode}:\n{self.said()[-4000:]}")


def compare(one, other, what):
    for at in one.keys() & other.keys():
        if one[at] != other[at]:
            raise Missed(f"rank {at[0]}: step {at[1]} made {one[at]}, and {other[at]} {what}")


class Written:
    """What all lives of the disturbed job wrote."""

    def __init__(self):
        self.digests, self.again, self.resumed = {}, 0, 0

    def add(self, life):
        found = life.digests()
        compare(self.digests, found, "after a resume")
        self.again += len(self.digests.keys() & found.keys())
        self.resumed += any(event["resumed"] for event in life.of("open"))
        self.digests.update(found)

    @property
    def last(self):
        return max(step for _, step in self.digests)


def disturbed(options, folder, kind):
    written, chosen = Written(), random.Random(f"{options.seed} {kind}")
    for number in range(options.lives):
        life = ResumedLife(folder, number, kind, options.ranks, 10**6)
        life.start()
        life.wait_for(1)
        time.sleep(chosen.uniform(0, SECONDS))
        life.kill()
        written.add(life)
    life = ResumedLife(folder, options.lives, kind, options.ranks, written.last + LAST)
    life.start()
    life.complete()
    written.add(life)
    return written


def undisturbed(options, folder, kind, steps):
    life = ResumedLife(folder, 0, kind, options.ranks, steps)
    life.start()
    life.complete()
    return life.digests()


def run(options, folder):
    """What was found."""
    found = []
    for kind in KINDS:
        (folder / kind / "undisturbed").mkdir(parents=True)
        try:
            written = disturbed(options, folder / kind, kind)
            whole = undisturbed(options, folder / kind / "undisturbed", kind, written.last)
            compare(whole, written.digests, "in the job that was killed")
            if whole.keys() != written.digests.keys():
                raise Missed(f"the histories have other steps: {sorted(whole.keys() ^ written.digests.keys())[:10]}")
            print(f"resume: {kind}: {options.lives} kills of all {options.ranks} ranks and the server, "
                  f"{written.resumed} resumes from a checkpoint, {written.last} steps a rank, {written.again} of all ranks "
                  "done again, all bit-identical to the undisturbed run", flush=True)
        except Missed as missed:
            found.append(f"{kind}: {missed}")
    return found
