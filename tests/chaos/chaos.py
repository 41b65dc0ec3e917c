#!/usr/bin/env python3
"""Faults at random instants in real jobs, what they cost, and whether the guarantees held.

    tests/chaos/chaos.py [KIND …] [COUNT] [--ranks P] [--seed S] [--failure-timeout S]
                         [--straggler-grace S] [--down S] [--minutes M] [--faults F] [--worlds P …] [--passes N]
                         [--windows N] [--state MIB] [--connections N] [--seconds S] [--lives N] [--transport T] [--fixed] [--shrink] [--keep DIRECTORY]

kill         SIGKILL of a random rank
transfer     kill, between hosts with 1 Gbit/s and a state of 100 MiB, which the newcomer takes from the others
stop         SIGSTOP of a random rank for longer than the failure timeout, then SIGCONT
reducer      SIGKILL of a reducer
coordinator  SIGKILL of a coordinator that is nothing else; it is started again at the same address
server       SIGKILL of a server that is coordinator and reducer; it is started again at the same address
standby      SIGKILL of the server that leads, whose standby takes over, and of etcd's own leader, by turns
partition    hosts lose their network: one, half of them, one way only, the data plane only (needs root)
store        SIGKILL of all processes of a fixed job while it saves; all start again and resume (store.py)
updates      SIGKILL of all processes of a job with an update log: no committed step is lost (updates.py)
pytorch      SIGKILL of a random rank of examples/elastic.py under `ringwood run --elastic`
resume       SIGKILL of all processes of a job with checkpoints: each step has the bits of an undisturbed run (resume.py)
disk         a full disk, and a deleted store, under examples/fashion_mnist.py (disk.py)
slow         a checkpoint whose check takes three times as long as any timeout is resumed from (slow.py)
goodput      kills, stops and lost links over some minutes: the share of the work that gets done (goodput.py)
flood        garbage on every port of a job under TLS: it trains on, and keeps none of it (flood.py)
grow         a job of 2, 4, 8 and then 3 ranks: samples, residuals, and the loss of an LSTM (grow.py)

With a server that has --elastic the survivors go on: the pause is the time from the fault to their next committed
step in a new epoch, of the slowest survivor. Who was killed is started again, who was stopped or cut off comes back;
"whole" is the time from then until all ranks have committed a step together; of a process of `pytorch`, from when its
own start-up is over. With --fixed, or another server, every fault ends the job, and the pause is the time until all
have ended. Prints a line a fault and a table.

Histories of all processes go through the checker (check.py); exit code 1 if it, or the campaign, found something.
"""

import argparse
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

import disk
import flood
import goodput
import grow
import resume
import slow
import store
import updates
from campaign import Campaign, summary
from faults import FAULTS, SETTINGS
from job import TRAINER, Job, netfaults, server_can
from standby import ETCD

FULL = {"kill": 200, "transfer": 10, "stop": 100, "reducer": 100, "coordinator": 200, "server": 100, "standby": 20, "partition": 50,
        "store": 50, "updates": 1, "resume": 1, "pytorch": 20, "disk": 1, "slow": 1, "goodput": 1, "grow": 1,
        "flood": 1}  # without a COUNT
RANKS = {"store": 2, "updates": 2, "resume": 2, "pytorch": 4, "transfer": 4, "goodput": 32}  # without --ranks, others 8
TIMEOUTS = {"goodput": 1.0}  # without --failure-timeout, others 5
WHOLE = {"disk": disk.run, "slow": slow.run, "goodput": goodput.run, "grow": grow.run, "updates": updates.run,
         "resume": resume.run, "flood": flood.run}  # kinds that print what they measure
ELASTIC = ("goodput", "grow")  # of these, jobs that are elastic
HOSTS = ("partition", "transfer")  # kinds whose ranks have a host each
OPTIONAL = (*HOSTS, "standby", "pytorch")  # kinds that ask for more than a build


def run_campaign(what, count, options, folder):
    if what == "standby" and ETCD is None:
        raise OSError("etcd is not installed (Debian: etcd-server)")
    if what == "pytorch" and not options.elastic:
        raise OSError("the example is that of an elastic job")
    random_ = random.Random(f"{options.seed} {what}")
    settings = {**SETTINGS.get(what, {}), "grace": options.straggler_grace}
    if what not in HOSTS:
        campaign = Campaign(options, count, random_, folder, **settings)
        campaign.run(FAULTS[what])
        return campaign
    netfaults.HOSTS = options.ranks + 1
    with netfaults.Hosts() as hosts:
        if what == "transfer":
            hosts.shape("1gbit")
            settings["command"] = [TRAINER], [5, 20000, 0, options.state]
        campaign = Campaign(options, count, random_, folder, hosts=hosts.names, address=f"{hosts.address(0)}:0",
                            **settings)
        campaign.network = hosts
        campaign.run(FAULTS[what])
        return campaign


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar=f"{'|'.join(FULL)}|COUNT")
    parser.add_argument("--ranks", type=int, help="default: 8; store, updates, resume: 2; pytorch: 4; goodput: 32")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failure-timeout", type=float, help="default: 5; goodput: 1")
    parser.add_argument("--straggler-grace", type=float, help="seconds that a rank may be late; default: for ever")
    parser.add_argument("--down", type=float, default=20.0, help="seconds that a coordinator is away at most")
    parser.add_argument("--minutes", type=float, default=30.0, help="of goodput with faults")
    parser.add_argument("--faults", type=int, default=62, help="in these minutes")
    parser.add_argument("--worlds", type=int, nargs="+", default=[2, 4, 8, 3], help="of grow, one after the other")
    parser.add_argument("--passes", type=int, default=12, help="of grow's LSTM over its text")
    parser.add_argument("--windows", type=int, default=2048, help="of the text")
    parser.add_argument("--state", type=int, default=100, help="MiB that a newcomer takes in transfer")
    parser.add_argument("--lives", type=int, default=50, help="of the jobs of updates and resume, with each optimizer")
    parser.add_argument("--seconds", type=float, default=90, help="that the check of slow takes")
    parser.add_argument("--connections", type=int, default=10000, help="of flood, to each port")
    parser.add_argument("--transport", choices=("ucx", "grpc", "auto"), default="auto", help="of the data plane; default: UCX")
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--shrink", action="store_true", help="an elastic job goes on without those that were lost")
    parser.add_argument("--keep", type=pathlib.Path, help="histories and output stay here")
    options = parser.parse_args()
    options.counts = [int(word) for word in options.what if word.isdecimal()]
    options.kinds = [word for word in options.what if not word.isdecimal()] or list(FULL)
    if unknown := [word for word in options.kinds if word not in FULL]:
        parser.error(f"unknown kind {unknown[0]}: {', '.join(FULL)}")
    options.elastic = not options.fixed and server_can("--elastic")
    options.mode = "elastic" if options.elastic else "fixed"
    return options


def run(what, options, folder):
    """(the campaign, or None, and what was found)."""
    count = options.counts[-1] if options.counts else FULL[what]
    options = argparse.Namespace(**{**vars(options), "ranks": options.ranks or RANKS.get(what, 8),
                                    "failure_timeout": options.failure_timeout or TIMEOUTS.get(what, 5.0)})
    if what in WHOLE:
        return None, run_whole(what, count, options, folder)
    print(f"{what}: {count} faults, {options.ranks} ranks, {options.mode}, seed {options.seed}", flush=True)
    try:
        campaign = run_campaign(what, count, options, folder)
        return campaign, campaign.found
    except (OSError, subprocess.CalledProcessError) as error:
        if what not in OPTIONAL:
            raise
        print(f"  skipped, as it cannot be done here: {error}")
        return None, []


def run_whole(what, count, options, folder):
    found = []
    if what in ELASTIC and not options.elastic:
        print(f"{what}: skipped, as it is of elastic jobs")
        return found
    for number in range(count):
        each = argparse.Namespace(**{**vars(options), "seed": options.seed + number})
        print(f"{what}: seed {each.seed}", flush=True)
        found += WHOLE[what](each, folder / str(number + 1))
    return found


def table(campaigns):
    print("| fault | survived | pause p50 / max (s) | whole p50 / max (s) | steps committed | exchanged again | findings |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    print("\n".join(campaign.row(what) for what, campaign in campaigns.items()))
    for what, campaign in campaigns.items():
        if what == "store":
            print(store.summary(campaign))
        if campaign.startups:
            print(f"{what}: killed ranks were ready to join again after {summary(campaign.startups)} s; the other ranks' "
                  f"processes stayed the same in {len(campaign.startups)} of {campaign.count}")


def main():
    options = parse_arguments()
    Job.transport = options.transport
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # with an end in order
    campaigns, found = {}, []
    with tempfile.TemporaryDirectory() as temporary:
        for what in options.kinds:
            campaign, lines = run(what, options, (options.keep or pathlib.Path(temporary)) / what)
            found += [f"{what}: {line}" for line in lines]
            if campaign:
                campaigns[what] = campaign
    if campaigns:
        table(campaigns)
    print("\n".join(found))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
