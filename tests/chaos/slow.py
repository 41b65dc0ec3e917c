"""A job resumes from a disk on which the check of its checkpoint takes three times as long as any timeout.

The job saves, ends in order, and starts again with a server whose disk is slow (slow_disk.c).
"""

import json
import pathlib
import re
import subprocess
import time

from job import PROGRAM, TRAINER, Job, Missed, environment

LONGER = 3  # the check, than timeouts
STEP, EVERY, SAMPLES = 5, 20, 1000000  # milliseconds, steps, of a pass
PROGRESS = r"checking the checkpoint of step \d+ before the job resumes: \S+ \S+ of"


class SlowJob(Job):
    def __init__(self, folder, timeout):
        self.server_flags = ["--join-timeout", timeout]
        super().__init__(folder, 2, failure_timeout=min(timeout, 5), command=([TRAINER], [STEP, SAMPLES, EVERY]))

    def bytes(self):
        listed = subprocess.run([PROGRAM, "checkpoint", "list", "--store", self.folder / "store", "--json"],
                                capture_output=True, text=True, env=environment(), timeout=600, check=True)
        return json.loads(listed.stdout)[0]["bytes"]

    def resume(self, seconds, timeout, shim):
        """Seconds from the start of the server until every rank has committed a step."""
        when = time.monotonic()
        self.server_variables = {"LD_PRELOAD": shim, "SLOW_DISK_BYTES_A_SECOND": self.bytes() / seconds}
        self.start_coordinator()
        self.variables = {"RINGWOOD_RESUME": 1, "RINGWOOD_JOIN_TIMEOUT": timeout}
        for rank in list(self.ranks):
            self.restart_rank(rank)
        def stepped():
            for each in self.ranks.values():
                if each.code is not None:
                    raise Missed(f"rank {each.rank} ended with {each.code}\n{self.said()}")
            return all(each.steps for each in self.ranks.values())

        self.wait(stepped, "the job does not resume", seconds=3 * seconds + 60)
        opened = [next(event for event in each.events if event["event"] == "open") for each in self.ranks.values()]
        if not all(event["resumed"] for event in opened):
            raise Missed("the job began anew")
        return max(each.steps[0]["time"] for each in self.ranks.values()) - when


def run(options, folder):
    """Prints the figures; returns the findings."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    shim = folder / "slow_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, pathlib.Path(__file__).with_name("slow_disk.c")],
                   check=True)
    timeout = options.seconds / LONGER
    job = SlowJob(folder / "job", timeout)
    try:
        job.wait_for_steps(3 * EVERY)
        job.finish()
        job.coordinator.end()
        took = job.resume(options.seconds, timeout, shim)
        told = len(re.findall(PROGRESS, job.coordinator.log.read_text()))
        print(f"  a check of {options.seconds:g} s with join timeouts of {timeout:g} s: resumed after {took:.1f} s, "
              f"{told} lines of progress", flush=True)
        job.finish()
        if took < options.seconds:
            return [f"the disk was not slow: {took:.1f} s"]
        return [] if told else ["no line of progress"]
    except Missed as missed:
        return [str(missed)]
    finally:
        job.close()
