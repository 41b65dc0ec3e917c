"""kill -9 of a whole job while it saves: the server with the store, and all ranks. All start again, and resume.

The job is a fixed one, so that nobody is left to hand its state over. Checkpoints follow each other closely: the server
dies at a random instant between two reports that one is complete, which is somewhere in the taking of a stripe, the
manifest, the witness or the removal of an older one.
"""

import json
import re
import signal
import subprocess
import time

from job import PROGRAM, TRAINER, Job, Missed, environment

EVERY, STEP = 2, 5  # steps between checkpoints, milliseconds of a step
MOST = 1000000  # samples of a pass: none ends


class StoreJob(Job):
    def __init__(self, folder, ranks, elastic=True, **options):
        super().__init__(folder, ranks, elastic=False, command=([TRAINER], [STEP, MOST, EVERY]), **options)

    def reported(self):
        """Steps of checkpoints that the present server has said are complete, in their order."""
        said = self.coordinator.log.read_text(errors="replace")
        return [int(step) for step in re.findall(r"checkpoint of step (\d+) is complete", said)]

    def checkpoint(self, *words):
        return subprocess.run([PROGRAM, "checkpoint", *words, "--store", self.folder / "store"], capture_output=True,
                              text=True, env=environment(), timeout=600)

    def listed(self):
        """What the store holds, newest first; each that is said to be complete has all its bytes."""
        listed = self.checkpoint("list", "--json")
        if listed.returncode:
            raise Missed(f"the store cannot be listed: {listed.stderr}")
        found = json.loads(listed.stdout)
        for each in found:
            if each["complete"]:
                good = self.checkpoint("verify", "--step", str(each["step"]), "--epoch", str(each["epoch"]))
                if good.returncode:
                    raise Missed(f"the checkpoint of step {each['step']} is listed, and is not: {good.stdout}{good.stderr}")
        return found

    def start_again(self):
        self.start_coordinator()
        self.variables = {"RINGWOOD_RESUME": 1}
        for rank in list(self.ranks):
            self.restart_rank(rank)


def kill_while_saving(campaign, job):
    """The time from the start of the server until each rank has committed a step again."""
    seen = len(job.reported())
    job.wait(lambda: len(job.reported()) > seen + 1, "no two checkpoints are complete")
    time.sleep(campaign.random.uniform(0, 2 * EVERY * STEP / 1000))
    for each in [job.coordinator, *job.ranks.values()]:
        each.send(signal.SIGKILL)
    for each in [job.coordinator, *job.ranks.values()]:
        each.end()
    job.faults += 1
    told = job.reported()[-1]
    listed = job.listed()
    complete = [each["step"] for each in listed if each["complete"]]
    campaign.halves = getattr(campaign, "halves", 0) + (len(complete) < len(listed))
    if not complete or complete[0] < told or len(complete) < 2:
        raise Missed(f"the checkpoint of step {told} was reported, the store has {complete}\n{job.said()}")
    when = time.monotonic()
    before = {each.rank: steps_of(each) for each in job.ranks.values()}
    job.start_again()
    job.wait_for_steps()
    for each in job.ranks.values():
        opened = next(event for event in each.events if event["event"] == "open")
        if not opened["resumed"] or opened["step"] != complete[0]:
            raise Missed(f"rank {each.rank} begins at step {opened['step']}, the newest checkpoint is of {complete[0]}")
        compare(each.rank, before[each.rank], steps_of(each))
    return max(each.steps[0]["time"] for each in job.ranks.values()) - when


def steps_of(rank):
    return {event["step"]: event["digest"] for event in rank.steps}


def compare(rank, before, after):
    """What is done again after a resume has the bits that it had."""
    for step in before.keys() & after.keys():
        if before[step] != after[step]:
            raise Missed(f"rank {rank}: step {step} had the weights {before[step]}, and has {after[step]} after the resume")


def summary(campaign):
    return (f"store: {getattr(campaign, 'halves', 0)} of {len(campaign.pauses)} kills left a checkpoint half-way, which "
            "nobody lists as complete")
