"""A job that grows and shrinks while it trains: 2, 4, 8 and then 3 ranks, in one run.

Ranks come together; they go one by one, by turns in order and killed. First the C++ trainer does so, whose histories
prove that each sample of a pass was in one committed step and that residuals balance (ledger.py); then an LSTM of
PyTorch (lstm.py), whose loss is told beside that of four ranks that nothing disturbs, pass by pass: both have trained on
the same samples.
"""

import collections
import random
import signal
import sys
import time

import check
import ledger
from job import ROOT, Job, Missed, go_on, patiently

SAMPLES, STEPS = 2000, 100  # of a pass of the trainer; at each size
LONG = 600  # seconds for what PyTorch does on a busy machine
LSTM = ROOT / "tests" / "chaos" / "lstm.py"
UNDISTURBED = 4  # ranks, or as many as there ever are


class Resized:
    """A job whose ranks come and go. `join(rank)`: its process, which is about to join."""

    def __init__(self, job, random_, join):
        self.job, self.random, self.join = job, random_, join
        self.gone = 0

    def to(self, world):
        """Until so many ranks train together."""
        job = self.job
        if world > len(job.ranks):
            when, before = time.monotonic(), len(job.ranks)
            for rank in range(before, world):
                job.ranks[rank] = self.join(rank)
            self._together(world)
            print(f"  {before} -> {world} ranks: together after {time.monotonic() - when:.3f} s", flush=True)
        while world < len(job.ranks):
            self.lose()
        self._together(world)

    def lose(self):
        """One rank leaves in order, the next one is killed."""
        job = self.job
        rank = self.random.choice(sorted(job.ranks))
        victim = job.ranks.pop(rank)
        leaves = self.gone % 2 == 0
        self.gone += 1
        job.faults += 1
        when = time.monotonic()
        if leaves:
            victim.send(signal.SIGUSR1)
        else:
            victim.end()
        pause = go_on(job, when, list(job.ranks.values())) - when
        job.wait(lambda: victim.code is not None, f"rank {rank} does not leave")
        if leaves and victim.code != 0:
            raise Missed(f"rank {rank}, which left in order, ended with {victim.code}\n{job.said()}")
        print(f"  rank {rank} {'leaves' if leaves else 'is killed'}: pause {pause:.3f} s", flush=True)

    def _together(self, world):
        self.job.world = world
        self.job.wait_until_together()


def findings(job, act):
    """Of a job that does what `act` says."""
    found = []
    try:
        act()
    except Missed as missed:
        found.append(str(missed))
    finally:
        job.close()
    return found + job.findings()


def trainer(options, folder, random_):
    job = Job(folder, options.worlds[0], elastic=True, failure_timeout=options.failure_timeout, samples=SAMPLES,
              most=max(options.worlds), grace=options.straggler_grace)

    def act():
        resized = Resized(job, random_, job.start_rank)
        for world in options.worlds:
            resized.to(world)
            job.wait_for_steps(STEPS)
        job.finish()

    found = findings(job, act)
    written = check.Job(job.histories())
    balances, steps = ledger.balances(written), written.standing()
    print(f"trainer: {len(steps)} steps, {max(event['pass'] for event in written.steps)} whole passes of {SAMPLES} samples; "
          f"residuals balance in {sum(not each for each in balances.values())} of {len(balances)} steps that all members "
          "wrote")
    for rank, step, norm in ledger.lost(written):
        print(f"  rank {rank}, killed after step {step}, took a residual of norm {norm:g} with it")
    return found


class LstmJob(Job):
    """All processes load first; a rank joins when its gate is open."""

    def __init__(self, folder, options, worlds):
        super().__init__(folder, worlds[0], elastic=True, failure_timeout=options.failure_timeout, most=max(worlds),
                         command=([sys.executable, LSTM], ["--passes", options.passes, "--windows", options.windows]))
        self.loading = {rank: self.start_rank(rank) for rank in range(worlds[0], max(worlds))}

    def begin(self):
        self.patiently_alive(lambda: all(each.events for each in self.everyone), "not all processes load")
        for each in self.ranks.values():
            self.open(each)

    def open(self, rank):
        rank.path.with_name(rank.path.name + ".gate").touch()

    def join(self, rank):
        self.open(self.loading[rank])
        return self.loading.pop(rank)

    def wait_for_pass(self, number):
        self.patiently_alive(lambda: any(each.steps and each.steps[-1]["pass"] >= number
                                         for each in self.ranks.values()), f"pass {number} does not begin")

    def patiently_alive(self, holds, what):
        def lives_and_holds():
            ended = {rank: each.code for rank, each in {**self.loading, **self.ranks}.items() if each.code is not None}
            if ended:
                raise Missed(f"{what}, but ranks ended: {ended}\n{self.said()}")
            return holds()

        patiently(lives_and_holds, what, LONG, self.said)

    def wait_for_end(self):
        patiently(lambda: all(each.code is not None for each in self.ranks.values()), "not all ranks end", LONG,
                  self.said)
        if wrong := {rank: each.code for rank, each in self.ranks.items() if each.code != 0}:
            raise Missed(f"ranks ended with {wrong}\n{self.said()}")


def lstm(options, folder, random_, worlds):
    """(the mean loss of each pass, findings) of a job that takes these sizes at even distances."""
    job = LstmJob(folder, options, worlds)

    def act():
        job.begin()
        resized = Resized(job, random_, job.join)
        for number, world in enumerate(worlds):
            job.wait_for_pass(number * options.passes // len(worlds))
            resized.to(world)
        job.wait_for_end()

    found = findings(job, act)
    sums = collections.defaultdict(lambda: [0.0, 0])
    for event in check.Job(job.histories()).steps:
        sums[event["pass"]][0] += event["loss"] * len(event["samples"])
        sums[event["pass"]][1] += len(event["samples"])
    return [total / max(1, count) for _, (total, count) in sorted(sums.items())], found


def run(options, folder):
    """Prints the figures; returns the findings."""
    random_ = random.Random(f"{options.seed} grow")
    found = trainer(options, folder / "trainer", random_)
    grown, of_grown = lstm(options, folder / "lstm", random_, options.worlds)
    ranks = min(UNDISTURBED, max(options.worlds))
    still, of_still = lstm(options, folder / "undisturbed", random_, [ranks])
    print(f"| pass of {options.windows} windows | loss, {' -> '.join(map(str, options.worlds))} ranks | loss, {ranks} "
          "ranks undisturbed |\n|---:|---:|---:|")
    for number, (one, other) in enumerate(zip(grown, still)):
        print(f"| {number + 1} | {one:.3f} | {other:.3f} |")
    return found + of_grown + of_still
