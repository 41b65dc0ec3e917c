"""Faults of one kind, one after the other, in as many jobs as they need: what each costs, and what the checker finds."""

import statistics
import time

import check
from job import Job, Missed, go_on

FEWEST = 3  # ranks before a fault; with fewer a new job begins


class Campaign:
    """Faults of one kind, in as many jobs as they need."""

    def __init__(self, options, count, random_, folder, make=Job, **job):
        self.options, self.count, self.random, self.folder = options, count, random_, folder
        self.make, self.settings = make, job
        self.job, self.jobs = None, 0
        self.pauses, self.wholes, self.found, self.steps, self.again = [], [], [], 0, 0
        self.startups = []  # of processes whose own start is no part of `wholes`

    def running(self, fewest=FEWEST):
        """The present job, or a new one, with every rank at work."""
        if self.job is not None and len(self.job.ranks) < fewest:
            self.end_job()
        if self.job is None:
            self.jobs += 1
            self.job = self.make(self.folder / f"job{self.jobs}", self.options.ranks, elastic=self.options.elastic,
                           failure_timeout=self.options.failure_timeout, **self.settings)
            self.job.wait_for_steps()
        time.sleep(self.random.uniform(0, 0.1))  # a random instant of a step
        return self.job

    def end_job(self):
        """In order if it still runs; then the checker."""
        job, self.job = self.job, None
        if job is None:
            return
        try:
            if self.options.elastic:
                job.finish()
        except Missed as missed:
            self.found.append(str(missed))
        finally:
            job.close()
        whole = check.Job(job.histories())
        self.steps += len(whole.standing())
        self.again += check.exchanged_again(whole)
        self.found += job.findings()

    def after(self, job, when, survivors):
        """The pause after a fault at `when`: until each survivor has committed a step of a new epoch, or, in a fixed
        job, until all have ended."""
        job.faults += 1
        if not self.options.elastic:
            job.wait(lambda: all(each.code is not None for each in survivors), "not all survivors end")
            wrong = [each.code for each in survivors if each.code != 75]
            if wrong:
                raise Missed(f"survivors ended with {wrong}\n{job.said()}")
            return time.monotonic() - when
        return go_on(job, when, survivors) - when

    def return_of(self, job, victims):
        """They take part again: those that live by themselves, the others started anew. A job that shrinks goes on
        without them."""
        if not self.options.elastic or self.options.shrink:
            for victim in victims:
                victim.end()
            return
        when = time.monotonic()
        for victim in victims:
            if victim.code is None:
                job.ranks[victim.rank] = victim
            else:
                job.restart_rank(victim.rank)
        self.wholes.append(self.whole_again(job, when) - when)

    def whole_again(self, job, when):
        """The time at which all ranks have committed a step together after `when`."""
        def whole():
            return [next((event for event in reversed(each.steps) if event["world"] == job.world), None)
                    for each in job.ranks.values()]

        def all_together():
            return all(event is not None and event["time"] > when for event in whole())

        def ended():
            return [each for each in job.ranks.values() if each.code is not None]

        job.wait(lambda: ended() or all_together(), "the job is not whole again")
        if ended():
            raise Missed(f"rank {ended()[0].rank} ended with {ended()[0].code}\n{job.said()}")
        first = [next(event["time"] for event in each.steps if event["time"] > when and event["world"] == job.world)
                 for each in job.ranks.values()]
        return max(first)

    def run(self, fault):
        try:
            self.cause(fault)
        finally:  # interrupted: nothing of it stays
            if self.job is not None:
                self.job.close()

    def cause(self, fault):
        for number in range(self.count):
            try:
                pause = fault(self, self.running(min(FEWEST, self.options.ranks)))
                self.pauses.append(pause)
                whole = f", whole {self.wholes[-1]:.3f} s" if self.wholes else ""
                print(f"  {number + 1}: {pause:.3f} s{whole}", flush=True)
            except Missed as missed:
                self.found.append(f"fault {number + 1}: {missed}")
                print(f"  {number + 1}: {missed}", flush=True)
                self.drop_job()
            if not self.options.elastic:
                self.end_job()
        self.end_job()

    def drop_job(self):
        if self.job is not None:
            self.job.close()
            self.found += self.job.findings()
            self.job = None

    def row(self, what):
        return (f"| {what} | {len(self.pauses)} of {self.count} | {summary(self.pauses)} | {summary(self.wholes)} | "
                f"{self.steps} | {self.again} | {len(self.found)} |")


def summary(times):
    return f"{statistics.median(times):.3f} / {max(times):.3f}" if times else "–"
