#!/usr/bin/env python3
"""Two jobs on one deployment of two servers: what does one notice when the other is killed and started again?

    PYTHONPATH=python bench/server/beside_kills.py build/release/bin/ringwood [--kills 10] [--seconds 6]

Each job has two ranks, which train a sparse and a dense tensor with some arithmetic between the steps. Windows
alternate: in one the other job trains undisturbed, in the next one both of its ranks are killed at the beginning and
started again at once. Prints the first job's mean time of a step in both windows of each pair, their ratio, and the
median of the ratios: what a kill costs a job beside it.
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

LIMIT_SECONDS = 60  # for a start, on a loaded machine


def train(file):
    """A rank: rank 0 writes the time of each step's end."""
    import numpy as np
    import ringwood

    with ringwood.Session() as session, open(file, "a", buffering=1) as times:
        gradients = {"large": np.zeros(200_000, np.float32), "small": np.zeros(2_000, np.float32)}
        for name, route in (("large", "sparse"), ("small", "dense")):
            session.register(name, gradients[name], route=route, density=0.01)
        session.agree()
        weights = {"large": np.zeros(200_000, np.float32)}
        if session.resumed:
            weights["large"][:] = np.frombuffer(session.restore("large"), np.float32)
        random = np.random.default_rng(session.rank)
        while True:
            for name, gradient in gradients.items():
                random.standard_normal(gradient.size, np.float32, gradient)
                session.ready(name)
            session.finish_step()
            weights["large"] -= gradients["large"]
            if session.rank == 0:
                times.write(f"{time.monotonic():.6f}\n")
            if session.step == 20:
                session.checkpoint(shared=weights)
            time.sleep(0.02)  # as a training does other things, too


class Job:
    def __init__(self, program, folder, name, address):
        self.times, self.log, self.ranks = folder / f"{name}.times", folder / f"{name}.log", []
        token = folder / f"{name}.token"
        subprocess.run([program, "token", "job", name, "--token-file", folder / "secret", "--out", token], check=True,
                       stdout=subprocess.DEVNULL)
        self.environment = os.environ | {"RINGWOOD_COORDINATOR": address, "RINGWOOD_TOKEN_FILE": str(token),
                                         "WORLD_SIZE": "2", "RINGWOOD_RESUME": "auto", "OMP_NUM_THREADS": "1"}

    def start(self):
        with open(self.log, "ab") as log:
            self.ranks = [subprocess.Popen([sys.executable, __file__, "--rank-of", self.times], stdout=log, stderr=log,
                                           env=self.environment | {"RANK": str(rank)}) for rank in range(2)]

    def kill(self):
        for rank in self.ranks:
            rank.kill()
        for rank in self.ranks:
            rank.wait()

    def ends(self):
        return [float(line) for line in self.times.read_text().split()] if self.times.exists() else []

    def trains_on(self, steps):
        """Until it has done so many steps more."""
        goal, end = len(self.ends()) + steps, time.monotonic() + LIMIT_SECONDS
        while len(self.ends()) < goal:
            if time.monotonic() > end or any(rank.poll() is not None for rank in self.ranks):
                sys.exit(f"{self.times.stem} does not train:\n{self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def step_seconds(self, begin, end):
        inside = [at for at in self.ends() if begin <= at <= end]
        return (inside[-1] - inside[0]) / (len(inside) - 1)


@contextlib.contextmanager
def deployment(program, folder):
    subprocess.run([program, "token", "new", "--out", folder / "secret"], check=True, stdout=subprocess.DEVNULL)
    flags = ["--token-file", folder / "secret", "--jobs", "4", "--servers", "2"]
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(subprocess.Popen(
            [program, "server", "--listen", "127.0.0.1:0", "--insecure", *flags, "--store", folder / "store"],
            stdout=subprocess.PIPE, text=True))
        stack.callback(first.terminate)
        address = first.stdout.readline().split()[-1]
        further = stack.enter_context(subprocess.Popen(
            [program, "server", "--coordinator", address, "--reducer-index", "1", *flags], stdout=subprocess.DEVNULL))
        stack.callback(further.terminate)
        yield address


def measure(steady, other, options):
    steady.start()
    other.start()
    other.trains_on(30)  # its checkpoint, too
    steady.trains_on(30)
    ratios = []
    for kill in range(options.kills):
        begin = time.monotonic()
        time.sleep(options.seconds)
        middle = time.monotonic()
        other.kill()
        other.start()
        other.trains_on(3)
        time.sleep(max(0.0, middle + options.seconds - time.monotonic()))
        end = time.monotonic()
        still, beside = steady.step_seconds(begin, middle), steady.step_seconds(middle, end)
        ratios.append(beside / still)
        print(f"kill {kill + 1:2}: a step {1e3 * still:6.2f} ms, with a kill {1e3 * beside:6.2f} ms in {end - middle:4.1f} s, "
              f"ratio {ratios[-1]:.3f}", flush=True)
    print(f"ratio per kill: median {statistics.median(ratios):.3f}, mean {statistics.mean(ratios):.3f}, "
          f"{min(ratios):.3f} to {max(ratios):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=6, help="of a window")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank_of:
        train(options.rank_of)
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        address = stack.enter_context(deployment(options.program, folder))
        jobs = [Job(options.program, folder, job, address) for job in ("steady", "killed")]
        for job in jobs:
            stack.callback(job.kill)
        measure(*jobs, options)


if __name__ == "__main__":
    main()
