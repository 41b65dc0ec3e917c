#!/usr/bin/env python3
"""Faults at random instants in real jobs, what they cost, and whether the guarantees held.

    tests/chaos/chaos.py [kill|stop|reducer|coordinator|server|standby|partition …] [COUNT] [--ranks P] [--seed S]
                         [--failure-timeout S] [--down S] [--fixed] [--shrink] [--keep DIRECTORY]

kill         SIGKILL of a random rank
stop         SIGSTOP of a random rank for longer than the failure timeout, then SIGCONT
reducer      SIGKILL of a reducer
coordinator  SIGKILL of a coordinator that is nothing else; it is started again at the same address
server       SIGKILL of a server that is coordinator and reducer; it is started again at the same address
standby      SIGKILL of the server that leads, whose standby takes over, and of etcd's own leader, by turns
partition    hosts lose their network: one, half of them, one way only, the data plane only (needs root)

With a server that has --elastic the survivors go on: the pause is the time from the fault to their next committed
step in a new epoch, of the slowest survivor. Who was killed is started again, who was stopped or cut off comes back;
"whole" is the time from then until all ranks have committed a step together. With --fixed, or another server, every fault ends the job, and the
pause is the time until all have ended. Histories of all processes go through the checker (check.py).
Prints a line a fault and a table; exit code 1 if something was found.
"""

import argparse
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import check
from job import Job, Missed, netfaults, server_can
from standby import ETCD, StandbyJob

FULL = {"kill": 200, "stop": 100, "reducer": 100, "coordinator": 200, "server": 100, "standby": 20,
        "partition": 50}  # without a COUNT
FEWEST = 3  # ranks before a fault; with fewer a new job begins


class Campaign:
    """Faults of one kind, in as many jobs as they need."""

    def __init__(self, options, count, random_, folder, make=Job, **job):
        self.options, self.count, self.random, self.folder = options, count, random_, folder
        self.make, self.settings = make, job
        self.job, self.jobs = None, 0
        self.pauses, self.wholes, self.found, self.steps, self.again = [], [], [], 0, 0

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
        before = max((event["epoch"] for each in job.everyone for event in each.steps if event["time"] <= when),
                     default=0)

        def ended():
            return [each for each in survivors if each.code is not None]

        def first_steps():
            return [next((event for event in each.steps if event["time"] > when and event["epoch"] > before), None)
                    for each in survivors]

        job.wait(lambda: ended() or all(first_steps()), "the survivors do not go on")
        if ended():
            raise Missed(f"rank {ended()[0].rank}, a survivor, ended with {ended()[0].code}\n{job.said()}")
        return max(event["time"] for event in first_steps()) - when

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
        self.wholes.append(max(first) - when)

    def run(self, fault):
        try:
            self.cause(fault)
        finally:  # interrupted: nothing of it stays
            if self.job is not None:
                self.job.close()

    def cause(self, fault):
        for number in range(self.count):
            try:
                pause = fault(self, self.running())
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


def kill(campaign, job):
    victim = job.ranks.pop(campaign.random.choice(sorted(job.ranks)))
    when = time.monotonic()
    victim.end()
    pause = campaign.after(job, when, list(job.ranks.values()))
    campaign.return_of(job, [victim])
    return pause


def stop(campaign, job):
    """Others go on without it; when it continues it is a stranger, and does no harm."""
    victim = job.ranks.pop(campaign.random.choice(sorted(job.ranks)))
    when = time.monotonic()
    victim.send(signal.SIGSTOP)
    try:
        pause = campaign.after(job, when, list(job.ranks.values()))
    finally:
        victim.send(signal.SIGCONT)
    campaign.return_of(job, [victim])
    return pause


def reducer(campaign, job):
    index = campaign.random.choice(sorted(job.reducers))
    when = time.monotonic()
    job.reducers[index].send(signal.SIGKILL)
    pause = campaign.after(job, when, list(job.ranks.values()))
    if campaign.options.elastic:
        job.start_reducer(index)
        when = time.monotonic()
        job.wait(lambda: job.reducers_of_the_epoch() == job.servers, "the reducer that was started again takes no part")
        campaign.wholes.append(time.monotonic() - when)
        job.wait_for_steps()
    return pause


def restart_coordinator(campaign, job):
    """The longest time without a commit on any rank, less the time in which there was no coordinator."""
    down = campaign.random.uniform(0, campaign.options.down)
    when = time.monotonic()
    job.coordinator.end()
    if not campaign.options.elastic:
        return campaign.after(job, when, list(job.ranks.values()))
    job.faults += 1
    time.sleep(down)
    job.start_coordinator()
    back = time.monotonic()
    job.wait_for_steps()
    return longest_pause(job, when) - (back - when)


def longest_pause(job, when):
    """The longest time without a commit on any rank since `when`."""
    longest = 0
    for each in job.ranks.values():
        times = [event["time"] for event in each.steps if event["time"] > when - 1]
        longest = max(longest, *(later - max(earlier, when) for earlier, later in zip(times, times[1:])))
    return longest


def coordinator(campaign, job):
    """Nobody else died, so the epoch is the same afterwards."""
    epochs = {each.epoch for each in job.ranks.values()}
    pause = restart_coordinator(campaign, job)
    if campaign.options.elastic and {each.epoch for each in job.ranks.values()} != epochs:
        raise Missed(f"the epoch has changed from {epochs}\n{job.said()}")
    return pause


def standby(campaign, job):
    """The time without a commit. Nobody of the epoch died, so it is the same afterwards."""
    number = campaign.turns = getattr(campaign, "turns", -1) + 1
    epochs = {each.epoch for each in job.ranks.values()}
    when = time.monotonic()
    if number % 2 == 1 and campaign.options.elastic:
        member = job.etcd.leader()
        print(f"  etcd's leader, member {member}", flush=True)
        job.etcd.members[member].end()
        job.wait(lambda: job.etcd.leader() not in (None, member), "etcd has no new leader")
        job.wait_for_steps()
        job.etcd.restart(member)
    else:
        job.kill_leader()
        if not campaign.options.elastic:
            return campaign.after(job, when, list(job.ranks.values()))
        job.await_leader()
        job.wait_for_steps()
    job.restore_servers()
    job.faults += 1
    if {each.epoch for each in job.ranks.values()} != epochs:
        raise Missed(f"the epoch has changed from {epochs}\n{job.said()}")
    return longest_pause(job, when)


def partition(campaign, job):
    """By turns: a host without network, half of the hosts without, one that hears and is not heard, one without its data
    plane. The coordinator's host stays. It heals when the others have gone on."""
    number = campaign.partitions = getattr(campaign, "partitions", -1) + 1
    how = HOW[number % len(HOW)]
    network, ranks = campaign.network, sorted(job.ranks)
    cut_off = campaign.random.sample(ranks, len(ranks) // 2 if how == "half" else 1)
    victims = [job.ranks.pop(rank) for rank in cut_off]
    hosts = [1 + rank for rank in cut_off]
    print(f"  {how}: ranks {cut_off}", flush=True)
    when = time.monotonic()
    try:
        for host in hosts:
            if how == "one-way":
                network.mute(host)
            elif how == "data":
                network.cut_data(host, job.address.rpartition(":")[2])
            else:
                network.plug(host, False)
        pause = campaign.after(job, when, list(job.ranks.values()))
    finally:
        for host in hosts:
            network.plug(host, True)
        network.restore()
    campaign.return_of(job, victims)
    return pause


HOW = ["host", "half", "one-way", "data"]
FAULTS = {"kill": kill, "stop": stop, "reducer": reducer, "coordinator": coordinator, "server": restart_coordinator,
          "standby": standby, "partition": partition}
SETTINGS = {"reducer": {"servers": 2}, "coordinator": {"alone": True}, "standby": {"make": StandbyJob}}  # of jobs


def run_campaign(what, count, options, folder):
    if what == "standby" and ETCD is None:
        raise OSError("etcd is not installed (Debian: etcd-server)")
    random_ = random.Random(f"{options.seed} {what}")
    if what != "partition":
        campaign = Campaign(options, count, random_, folder, **SETTINGS.get(what, {}))
        campaign.run(FAULTS[what])
        return campaign
    netfaults.HOSTS = options.ranks + 1
    with netfaults.Hosts() as hosts:
        campaign = Campaign(options, count, random_, folder, hosts=hosts.names, address=f"{hosts.address(0)}:0")
        campaign.network = hosts
        campaign.run(FAULTS[what])
        return campaign


def summary(times):
    return f"{statistics.median(times):.3f} / {max(times):.3f}" if times else "–"


def row(what, campaign):
    return (f"| {what} | {len(campaign.pauses)} of {campaign.count} | {summary(campaign.pauses)} | "
            f"{summary(campaign.wholes)} | {campaign.steps} | {campaign.again} | {len(campaign.found)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar=f"{'|'.join(FAULTS)}|COUNT")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failure-timeout", type=float, default=5.0)
    parser.add_argument("--down", type=float, default=20.0, help="seconds that a coordinator is away at most")
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--shrink", action="store_true", help="an elastic job goes on without those that were lost")
    parser.add_argument("--keep", type=pathlib.Path, help="histories and output stay here")
    options = parser.parse_args()
    counts = [int(word) for word in options.what if word.isdecimal()]
    kinds = [word for word in options.what if not word.isdecimal()]
    if unknown := [word for word in kinds if word not in FAULTS]:
        parser.error(f"unknown fault {unknown[0]}: {', '.join(FAULTS)}")
    options.elastic = not options.fixed and server_can("--elastic")
    mode = "elastic" if options.elastic else "fixed"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # with an end in order
    lines, found = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        for what in kinds or FAULTS:
            count = counts[-1] if counts else FULL[what]
            print(f"{what}: {count} faults, {options.ranks} ranks, {mode}, seed {options.seed}", flush=True)
            try:
                campaign = run_campaign(what, count, options, folder / what)
            except (OSError, subprocess.CalledProcessError) as error:
                if what not in ("partition", "standby"):
                    raise
                print(f"  skipped, as it cannot be done here: {error}")
                continue
            lines.append(row(what, campaign))
            found += [f"{what}: {line}" for line in campaign.found]
    print("| fault | survived | pause p50 / max (s) | whole p50 / max (s) | steps committed | exchanged again | findings |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    print("\n".join(lines))
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
