"""A job of real processes for the fault tests: a server and ranks without a launcher, and what they wrote."""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import check

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import netfaults  # noqa: E402
from startup.warm import PYTHONPATH  # noqa: E402

BUILD = pathlib.Path(os.environ.get("RINGWOOD_BUILD", ROOT / "build" / "release")).resolve()
PROGRAM, TRAINER = BUILD / "bin" / "ringwood", BUILD / "bin" / "chaos_trainer"
PYTHON = {"PYTHONPATH": PYTHONPATH, "RINGWOOD_LIBRARY": BUILD / "lib" / "libringwood.so", "OMP_NUM_THREADS": 1}
LIMIT = 90  # seconds: nothing that is waited for takes longer on a loaded machine
LOOK = 0.02  # seconds between two looks; times are those that the processes wrote


class Missed(Exception):
    """What should have happened did not: a finding."""


def patiently(holds, what, seconds, said):
    """Until `holds()`; if it does not within the time, `said()` goes with the finding."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise Missed(f"{what} within {seconds} s\n{said()}")
        time.sleep(LOOK)


def go_on(job, when, survivors):
    """The time at which each survivor of a fault at `when` has committed a step of a new epoch."""
    before = max((event["epoch"] for each in job.everyone for event in each.steps if event["time"] <= when), default=0)

    def ended():
        return [each for each in survivors if each.code is not None]

    def first_steps():
        return [next((event for event in each.steps if event["time"] > when and event["epoch"] > before), None)
                for each in survivors]

    job.wait(lambda: ended() or all(first_steps()), "the survivors do not go on")
    if ended():
        raise Missed(f"rank {ended()[0].rank}, a survivor, ended with {ended()[0].code}\n{job.said()}")
    return max(event["time"] for event in first_steps())


def server_can(flag):
    said = subprocess.run([PROGRAM, "server", "--help"], capture_output=True, text=True, check=True).stdout
    return flag in said


def environment(**more):
    mine = {name: value for name, value in os.environ.items() if not name.startswith("RINGWOOD_")}
    return {**mine, **{name: str(value) for name, value in more.items()}}


class Process:
    """A process with its output in a file. `host`: the network namespace that it runs in."""

    def __init__(self, command, log, host=None, **variables):
        prefix = ["ip", "netns", "exec", host] if host else []
        self.log = pathlib.Path(log)
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen([*prefix, *map(str, command)], stdout=output, stderr=subprocess.STDOUT,
                                            env=environment(**variables))

    @property
    def code(self):
        return self.process.poll()

    def send(self, number):
        self.process.send_signal(number)

    def end(self):
        if self.code is None:
            self.send(signal.SIGKILL)
        self.process.wait()


class History:
    """What a process has written so far."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self._read = 0
        self._events, self._steps = [], []

    @property
    def events(self):
        if self.path.exists():
            with open(self.path, "rb") as file:
                file.seek(self._read)
                content = file.read()
            whole = content.rfind(b"\n") + 1
            self._read += whole
            new = [json.loads(line) for line in content[:whole].splitlines()]
            self._events += new
            self._steps += [event for event in new if event["event"] == "step"]
        return self._events

    @property
    def steps(self):
        self.events  # reads on
        return self._steps

    @property
    def epoch(self):
        return self.steps[-1]["epoch"] if self.steps else 0


class Rank(Process, History):
    """One process of a rank. `command`: what comes before the history, and after it."""

    def __init__(self, command, folder, rank, life, **options):
        self.rank = rank
        before, after = command
        History.__init__(self, pathlib.Path(folder) / f"rank{rank}.{life}.jsonl")
        Process.__init__(self, [*before, self.path, *after], f"{folder}/rank{rank}.{life}.log", RANK=rank, **options)


class Job:
    """`servers`: reducers; the first one's process is the coordinator too, unless it stands `alone`. `hosts`:
    namespaces, one a rank and one for the coordinator before them. `most`: ranks that may take part; without it those
    that it begins with. `grace`: seconds that a rank may be late. `command`: that of a rank, as Rank has it; without it the trainer with steps of so many
    milliseconds and passes of so many samples."""

    server_flags, server_variables = (), {}  # of a coordinator that is started from now on
    transport = "auto"  # of the data plane

    def __init__(self, folder, ranks, servers=1, failure_timeout=2.0, elastic=False, step=5, samples=20000, hosts=None,
                 address=None, alone=False, most=None, grace=None, command=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.begun_with = self.world = ranks
        self.elastic, self.failure_timeout, self.most, self.grace = elastic, failure_timeout, most, grace
        self.hosts, self.servers, self.alone = hosts, servers, alone
        self.command = command or ([TRAINER], [step, samples])
        self.network = ["--network-interface", "eth0", "--trusted-fabric"] if hosts else ["--insecure"]
        self.network += ["--transport", self.transport]
        self.variables = {}  # of ranks that are started from now on
        self.faults = 0
        self.lives = collections.Counter()  # processes of a rank
        self.everyone = []  # every rank's process that there was
        self.reducers = {}
        self.coordinator = None
        self.address = address or "127.0.0.1:0"
        self.start_coordinator()
        for index in range(0 if alone else 1, servers):
            self.start_reducer(index)
        self.ranks = {rank: self.start_rank(rank) for rank in range(ranks)}

    def start_coordinator(self):
        log = self.folder / f"coordinator.{len(list(self.folder.glob('coordinator.*')))}.log"
        flags = self.elastic_flags() + (["--no-reducer"] if self.alone else [])
        self.coordinator = Process([PROGRAM, "server", "--listen", self.address, "--servers", self.servers, "--store",
                                    self.folder / "store", "--failure-timeout", self.failure_timeout, *self.network,
                                    *flags, *self.server_flags], log, host=self.hosts and self.hosts[0],
                                   **self.server_variables)
        self.wait(lambda: "listening on" in log.read_text(), "the coordinator does not start")
        self.address = log.read_text().split("listening on ")[1].split()[0]

    def elastic_flags(self):
        flags = ["--elastic", "--min-np", 1] if self.elastic else []
        flags += ["--max-np", self.most] if self.most else []
        return flags + (["--straggler-grace", self.grace] if self.grace else [])

    def start_reducer(self, index):
        log = self.folder / f"server{index}.{len(list(self.folder.glob(f'server{index}.*')))}.log"
        self.reducers[index] = Process([PROGRAM, "server", "--coordinator", self.address, "--reducer-index", index,
                                        "--servers", self.servers, "--failure-timeout", self.failure_timeout,
                                        *self.network], log, host=self.hosts and self.hosts[0])

    def reducers_of_the_epoch(self):
        """How many, by what the coordinator has said last."""
        logs = sorted(self.folder.glob("coordinator.*.log"), key=lambda path: path.stat().st_mtime)
        said = re.findall(r"begins at step .* (\d+) servers?", logs[-1].read_text())
        return int(said[-1]) if said else None

    def start_rank(self, rank):
        self.lives[rank] += 1
        more = {"RINGWOOD_NETWORK_INTERFACE": "eth0", "RINGWOOD_TRUSTED_FABRIC": 1,
                "RINGWOOD_PORT_RANGE": "{}-{}".format(*netfaults.PORTS)} if self.hosts else {}
        started = Rank(self.command, self.folder, rank, self.lives[rank], WORLD_SIZE=self.begun_with,
                       RINGWOOD_COORDINATOR=self.address, RINGWOOD_HOST=f"h{rank}", RINGWOOD_TRANSPORT=self.transport, **PYTHON,
                       host=self.hosts and self.hosts[1 + rank], **more, **self.variables)
        self.everyone.append(started)
        return started

    def restart_rank(self, rank):
        self.ranks[rank] = self.start_rank(rank)
        return self.ranks[rank]

    def wait(self, holds, what, seconds=LIMIT):
        patiently(holds, what, seconds, self.said)

    def wait_for_steps(self, more=20, ranks=None):
        """Every rank commits so many further steps."""
        goals = {each: len(each.steps) + more for each in (ranks or list(self.ranks.values()))}

        def reached():
            ended = [each for each in goals if each.code is not None]
            if ended:
                raise Missed(f"rank {ended[0].rank} ended with code {ended[0].code}\n{self.said()}")
            return all(len(each.steps) >= goal for each, goal in goals.items())

        self.wait(reached, f"not {more} further steps on every rank")

    def wait_until_together(self):
        """All ranks, and nobody else, have committed a step after now."""
        now = time.monotonic()

        def together():
            last = [each.steps[-1] for each in self.ranks.values() if each.steps]
            return len(last) == self.world and all(event["time"] > now and event["world"] == self.world
                                                   for event in last)

        self.wait(together, f"the {self.world} ranks do not train together")

    def said(self):
        """The last words of every process."""
        return "\n".join(f"  {path.name}: {line}" for path in sorted(self.folder.glob("*.log"))
                         for line in path.read_text(errors="replace").splitlines()[-3:])

    def histories(self):
        return [check.read(each.path) for each in self.everyone if each.path.exists()]

    def findings(self):
        return check.check(self.histories(), self.faults)

    def finish(self):
        """SIGTERM: the ranks agree on a last step, and all end in order."""
        for each in self.ranks.values():
            each.send(signal.SIGTERM)
        self.wait(lambda: all(each.code is not None for each in self.ranks.values()), "not all ranks end")
        wrong = {each.rank: each.code for each in self.ranks.values() if each.code != 0}
        if wrong:
            raise Missed(f"ranks ended with {wrong}\n{self.said()}")

    def close(self):
        for each in [*self.everyone, *self.reducers.values(), self.coordinator]:
            if each is not None:
                each.end()
