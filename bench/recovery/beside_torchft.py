"""Ringwood and torchft under the same faults, in turn: how long survivors wait, and how much of the work gets done.

    python -m venv torchft && torchft/bin/pip install torchft-nightly
    python bench/recovery/beside_torchft.py torchft/bin/python --turns 2

Each side trains the same model with PyTorch on the CPU (trainer.py), all processes on this machine, each host's in a
session of its own. Faults come at the same instants and hit the same ranks: SIGKILL, whose rank is started again at
once, and SIGSTOP for the failure timeout and 1 to 4 s more. torchft runs with its timeouts tuned: lighthouse heartbeats
and operations time out after the same failure timeout as Ringwood's. Needs a built tree.
"""

import argparse
import pathlib
import random
import signal
import socket
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "chaos"))
from goodput import Disturbed, schedule  # noqa: E402
from job import Job, Missed, Process, Rank, patiently  # noqa: E402

TRAINER = pathlib.Path(__file__).with_name("trainer.py")
START = 300  # seconds for processes that import PyTorch while others train


class Side(Job):
    """A job of either side: an elastic one without a launcher."""

    def __init__(self, which, python, folder, options):
        command = (["setsid", python, TRAINER, which, options.failure_timeout], [options.step])
        super().__init__(folder, options.ranks, elastic=True, failure_timeout=options.failure_timeout, command=command)

    def wait(self, holds, what, seconds=START):
        super().wait(holds, what, seconds)

    def wait_until_together(self):
        """Both count who contributes."""
        now = time.monotonic()
        self.wait(lambda: all(each.steps and each.steps[-1]["time"] > now and each.steps[-1]["world"] == self.world
                              for each in self.ranks.values()), f"the {self.world} ranks do not train together")

    def finish(self):
        for each in self.ranks.values():
            each.send(signal.SIGTERM)


class Torchft(Side):
    def start_coordinator(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        timeout = int(1000 * self.failure_timeout)
        self.address = f"http://127.0.0.1:{port}"
        program = pathlib.Path(self.command[0][1]).with_name("torchft_lighthouse")
        self.coordinator = Process(["setsid", program, "--min_replicas", 1, "--bind", f"127.0.0.1:{port}",
                                    "--heartbeat_timeout_ms", timeout, "--join_timeout_ms", timeout,
                                    "--quorum_tick_ms", 20], self.folder / "lighthouse.log")

        def listens():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        patiently(listens, "the lighthouse does not start", START, self.said)

    def start_rank(self, rank):
        self.lives[rank] += 1
        started = Rank(self.command, self.folder, rank, self.lives[rank], TORCHFT_LIGHTHOUSE=self.address,
                       OMP_NUM_THREADS=1)
        self.everyone.append(started)
        return started


class Faults(Disturbed):
    """Also torchft's processes that end by themselves are started again: what that costs is in the figures."""

    def revive(self):
        for rank, each in self.job.ranks.items():
            if each.code is not None:
                self.revived += 1
                self.job.restart_rank(rank)


def rate(job, begin, end):
    """Committed steps a second, each counted by the share of the ranks that contributed."""
    steps = {}
    for each in job.everyone:
        for event in each.steps:
            at, world = steps.get(event["step"], (event["time"], 0))
            steps[event["step"]] = min(at, event["time"]), max(world, event["world"])
    return sum(world / job.world for at, world in steps.values() if begin < at <= end) / (end - begin)


def pauses(job, caused):
    """kind -> from each fault to the slowest survivor's first step of a new epoch."""
    found = {}
    for kind, when in caused:
        living = [each for each in job.everyone if any(event["time"] <= when for event in each.steps)]
        before = max(event["epoch"] for each in living for event in each.steps if event["time"] <= when)
        firsts = [next((event for event in each.steps if event["time"] > when and event["epoch"] > before), None)
                  for each in living]
        epochs = [event["epoch"] for event in firsts if event]
        found.setdefault(kind, []).append(
            max(event["time"] for event in firsts if event and event["epoch"] == min(epochs)) - when)
    return found


def returns(job):
    """From when a killed rank's new process is about to join, with all loaded, to its first step with all ranks."""
    found = []
    for each in job.everyone[job.begun_with:]:
        whole = next((event["time"] for event in each.steps if event["world"] == job.world), None)
        if whole is not None:
            found.append(whole - each.events[0]["time"])
    return found


def run(which, options, folder):
    """The ratio of its goodput, and prints the rest."""
    make = {"ringwood": Side, "torchft": Torchft}[which]
    job = make(which, options.python if which == "torchft" else sys.executable, folder, options)
    seconds, still = 60 * options.minutes, max(10, 5 * options.minutes)
    try:
        job.wait_for_steps(20)
        job.wait_until_together()
        began = time.monotonic()
        time.sleep(still)
        normal = rate(job, began, time.monotonic())
        faults = Faults(job, random.Random(options.seed), None)
        plan = schedule(random.Random(options.seed), options.faults, seconds, False)
        window = faults.run(plan, seconds)
        share = rate(job, *window) / normal
        job.wait_until_together()
        job.finish()
    finally:
        job.close()
    print(f"{which}: undisturbed {normal:.2f} steps/s; goodput {share:.4f} of it; {faults.revived} ranks ended by "
          f"themselves", flush=True)
    for kind, times in sorted(pauses(job, faults.caused).items()):
        print(f"  {kind}: pause {statistics.median(times):.3f} / {max(times):.3f} s (median / max of {len(times)})")
    if back := returns(job):
        print(f"  a killed rank: whole {statistics.median(back):.2f} / {max(back):.2f} s after its own start-up")
    return share


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("python", help="of the virtual environment that has torchft")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--faults", type=int, default=10)
    parser.add_argument("--step", type=float, default=200, help="milliseconds of sleep in a step")
    parser.add_argument("--failure-timeout", type=float, default=2)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="histories and output stay here")
    return parser.parse_args()


def main():
    options = parse_arguments()
    shares = {"ringwood": [], "torchft": []}
    with tempfile.TemporaryDirectory() as temporary:
        for turn in range(options.turns):
            options.seed += turn > 0
            for which in shares:
                shares[which].append(run(which, options, (options.keep or pathlib.Path(temporary)) / f"{which}{turn}"))
    for which, found in shares.items():
        print(f"{which}: goodput {' '.join(f'{each:.4f}' for each in found)}")


if __name__ == "__main__":
    try:
        main()
    except Missed as missed:
        sys.exit(str(missed))
