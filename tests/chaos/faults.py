"""Each kind of fault: what is done to a job, and the pause that it costs. `campaign` counts them."""

import signal
import time

from example import ExampleJob, kill_example
from job import Missed
from standby import StandbyJob
from store import StoreJob, kill_while_saving


def kill(campaign, job):
    victim = job.ranks.pop(campaign.random.choice(sorted(job.ranks)))
    when = time.monotonic()
    victim.end()
    pause = campaign.after(job, when, list(job.ranks.values()))
    campaign.return_of(job, [victim])
    return pause


def transfer(campaign, job):
    """The newcomer takes a large state over a slow network while the others train."""
    survivors = set(job.ranks.values())
    pause = kill(campaign, job)
    newcomer = next(each for each in job.ranks.values() if each not in survivors)
    end = next(event["time"] for event in newcomer.steps if event["world"] == job.world)
    times = [event["time"] for event in next(iter(survivors & set(job.ranks.values()))).steps]
    meanwhile = [time_ for time_ in times if end - campaign.wholes[-1] < time_ <= end]
    longest = max((later - earlier for earlier, later in zip(meanwhile, meanwhile[1:])), default=0)
    print(f"  the others committed {len(meanwhile)} steps while it came, at most {longest:.3f} s apart", flush=True)
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
FAULTS = {"kill": kill, "transfer": transfer, "stop": stop, "reducer": reducer, "coordinator": coordinator, "server": restart_coordinator,
          "standby": standby, "partition": partition, "pytorch": kill_example, "store": kill_while_saving}
SETTINGS = {"reducer": {"servers": 2}, "coordinator": {"alone": True}, "standby": {"make": StandbyJob},
            "pytorch": {"make": ExampleJob}, "store": {"make": StoreJob}}  # of jobs
