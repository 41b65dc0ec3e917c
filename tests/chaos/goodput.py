"""How much of its work a job gets done while ranks die, stop and lose their network at random instants.

A job of ranks whose steps take 200 ms of sleep runs undisturbed, then with faults, then undisturbed again. Goodput is
the number of committed steps a second, each counted by the share of the job's ranks that contributed to it (weight
above 0); a step in which nobody is missing counts 1. What is told is the goodput of the disturbed time, from the first
possible instant of a fault to the last, over that of both undisturbed stretches together.
"""

import heapq
import itertools
import random
import signal
import subprocess
import time

import check
from campaign import summary
from job import Job, Missed, netfaults

STEP = 200  # milliseconds
KILLS = 27 / 62  # of the faults; the others are stops, and where hosts can be made every third of them a lost link
LEAST = 2  # ranks that are never disturbed together
LOOK = 0.05  # seconds between two looks at who has ended


def schedule(random_, count, seconds, links):
    """[(after so many seconds, kind)], in order."""
    kills = round(count * KILLS)
    others = ["link" if links and number % 3 == 2 else "stop" for number in range(count - kills)]
    kinds = ["kill"] * kills + others
    random_.shuffle(kinds)
    return list(zip(sorted(random_.uniform(0, seconds) for _ in kinds), kinds))


class Disturbed:
    """The faults of a job as they come. What was killed is started again at once, as by a launcher; what was stopped
    or cut off goes on some time after the failure timeout."""

    def __init__(self, job, random_, network):
        self.job, self.random, self.network = job, random_, network
        self.away = set()  # ranks that are stopped or cut off
        self.caused = []   # (kind, time)
        self.found, self.revived = [], 0
        self._agenda, self._order = [], itertools.count()

    def run(self, faults, seconds):
        began = time.monotonic()
        for after, kind in faults:
            self._at(began + after, lambda kind=kind: self.cause(kind))
        self._at(began + seconds, lambda: None)
        while self._agenda:
            when, _, act = self._agenda[0]
            self.revive()
            left = when - time.monotonic()
            if left > 0:
                time.sleep(min(left, LOOK))
            else:
                heapq.heappop(self._agenda)
                act()
        return began, began + seconds

    def cause(self, kind):
        here = sorted(set(self.job.ranks) - self.away)
        if len(here) <= LEAST:
            raise Missed(f"only ranks {here} are undisturbed when a {kind} is due: more ranks, or fewer faults")
        rank = self.random.choice(here)
        now = time.monotonic()
        self.caused.append((kind, now))
        if kind == "kill":
            self.job.ranks[rank].end()
            self.job.restart_rank(rank)
            return
        self.away.add(rank)
        if kind == "stop":
            self.job.ranks[rank].send(signal.SIGSTOP)
        else:
            self.network.plug(1 + rank, False)
        self._at(now + self.job.failure_timeout + self.random.uniform(1, 4), lambda: self.end(kind, rank))

    def end(self, kind, rank):
        if kind == "stop":
            self.job.ranks[rank].send(signal.SIGCONT)
        else:
            self.network.plug(1 + rank, True)
        self.away.discard(rank)

    def revive(self):
        """Who ended by itself is started again. It says so with 75 if another's fault is the reason."""
        for rank, each in self.job.ranks.items():
            if each.code is None:
                continue
            self.revived += 1
            if each.code != 75:
                self.found.append(f"rank {rank} ended with {each.code}\n{self.job.said()}")
            self.job.restart_rank(rank)

    def _at(self, when, act):
        heapq.heappush(self._agenda, (when, next(self._order), act))


def rates(job, begin, end, world):
    """Committed steps a second between two times: weighted by who contributed, and all alike. `job`: a check.Job."""
    when = {step: (min(event["time"] for event in events), events[0]["contributors"])
            for step, events in job.standing().items()}
    counted = [contributors / world for time_, contributors in when.values() if begin < time_ <= end]
    return sum(counted) / (end - begin), len(counted) / (end - begin)


def pauses(job, caused):
    """kind -> the times from each fault to the next epoch's first committed step, on the slowest of those that had
    committed one before; None where there was none."""
    found = {}
    for kind, when in caused:
        before = max((event["epoch"] for event in job.steps if event["time"] <= when), default=0)
        later = [event for event in job.steps if event["time"] > when and event["epoch"] > before]
        new = min((event["epoch"] for event in later), default=None)
        first = {}
        for event in later:
            if event["epoch"] == new and not event["received"]:
                first[event["rank"]] = min(event["time"], first.get(event["rank"], event["time"]))
        found.setdefault(kind, []).append(max(first.values()) - when if first else None)
    return found


def undisturbed(job, seconds):
    job.wait_until_together()
    began = time.monotonic()
    time.sleep(seconds)
    return began, time.monotonic()


def disturb(job, options, random_, network):
    """What is told of the job, and what was found."""
    seconds = 60 * options.minutes
    still = min(60, max(5, seconds / 12))
    disturbed = Disturbed(job, random_, network)
    before = undisturbed(job, still)
    window = disturbed.run(schedule(random_, options.faults, seconds, network is not None), seconds)
    after = undisturbed(job, still)
    job.finish()
    written = check.Job(job.histories())
    weighted, alike = rates(written, *window, job.world)
    normal = [rates(written, *stretch, job.world)[0] for stretch in (before, after)]
    print(f"goodput: {weighted / (sum(normal) / 2):.4f} of the undisturbed ({alike / (sum(normal) / 2):.4f} where every "
          f"step counts alike); undisturbed {normal[0]:.3f} steps/s before and {normal[1]:.3f} after, {still:g} s each; "
          f"{options.faults} faults in {seconds:g} s, {check.exchanged_again(written)} steps exchanged again, "
          f"{disturbed.revived} ranks ended by themselves")
    print("| fault | number | pause p50 / max (s) |\n|---|---:|---:|")
    for kind, times in sorted(pauses(written, disturbed.caused).items()):
        print(f"| {kind} | {len(times)} | {summary([each for each in times if each is not None])} |")
    return disturbed.found


def run(options, folder):
    """Prints the figures; returns the findings."""
    random_ = random.Random(f"{options.seed} goodput")
    netfaults.HOSTS = options.ranks + 1
    try:
        with netfaults.Hosts() as hosts:
            return run_on(options, folder, random_, hosts)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"  without lost links, as no network namespaces can be made here: {error}")
        return run_on(options, folder, random_, None)


def run_on(options, folder, random_, network):
    there = {"hosts": network.names, "address": f"{network.address(0)}:0"} if network else {}
    job = Job(folder / "job", options.ranks, elastic=True, failure_timeout=options.failure_timeout, step=STEP,
              grace=options.straggler_grace, **there)
    found = []
    try:
        job.wait_for_steps(5)
        found += disturb(job, options, random_, network)
    except Missed as missed:
        found.append(str(missed))
    finally:
        job.close()
    # How many steps were exchanged again is told, not judged: with short timeouts a busy machine has faults of its own.
    return found + check.check(job.histories())
