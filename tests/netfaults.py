#!/usr/bin/env python3
"""Faults of the network between four hosts (network namespaces on a bridge), and what a job makes of them.

    tests/netfaults.py [--cuts N] [--blips N] [--shares A,B,…] [--failure-timeout S] [--slack S]
                       [--transport ucx|grpc] [--ringwood PROGRAM]

cut    the data plane of one host is dropped both ways while control lives: a new job each time; the host's
       rank or server must be named within the failure timeout and the slack (1 s)
blip   one host has no network at all for these shares (0.5, 0.8, 0.9) of the outage that is tolerated (two
       fifths of the failure timeout): N of each, one after the other in one job, which must commit further steps

Prints a line for each and ends with 1 if one missed. Needs root, iproute2 and the right to make namespaces;
without them it says so and succeeds. Without arguments: 1 cut, 1 blip of each.
"""
import argparse
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
HOSTS = 4
VICTIM = 1  # host and rank; the coordinator is on host 0
PORTS = (21400, 21499)
NOWHERE = 100  # a routing table
JOB = """
import os, sys, time
import numpy as np
import ringwood
if os.environ["RANK"] == "0":
    print("coordinator", os.environ["RINGWOOD_COORDINATOR"], flush=True)
with ringwood.Session() as session:
    gradient = np.zeros(16384, np.float32)
    identity = session.register("gradient", gradient)
    session.agree()
    step = 0
    while not os.path.exists(sys.argv[1]) or step % 100:
        session.begin_step(1)
        gradient[:] = session.rank
        session.ready(identity)
        session.finish_step()
        step += 1
        if session.rank == 0 and step % 5 == 0:
            print("step", step, flush=True)
        time.sleep(0.02)
"""


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], check=check, capture_output=True, text=True)


class Hosts:
    """Namespaces whose names carry this process's number."""

    def __init__(self):
        number = os.getpid()
        self.names = [f"rw{number}n{i}" for i in range(HOSTS)]
        self.ports = [f"rwp{number}_{i}" for i in range(HOSTS)]
        self.bridge = f"rwbr{number}"
        self.subnet = f"10.{64 + number % 64}.{number // 64 % 256}"

    def __enter__(self):
        ip("link", "add", self.bridge, "type", "bridge")
        ip("link", "set", self.bridge, "up")
        for i, (name, port) in enumerate(zip(self.names, self.ports)):
            ip("netns", "add", name)
            ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", port, "master", self.bridge, "up")
            ip("-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            ip("-n", name, "link", "set", "eth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
            # What goes there leaves the host, and nobody takes it: a drop without a word. (Routes of the type blackhole
            # would refuse it at once.)
            nobody = f"{self.subnet}.254"
            ip("-n", name, "neigh", "add", nobody, "lladdr", "02:00:00:00:00:fe", "dev", "eth0", "nud", "permanent")
            ip("-n", name, "route", "add", "default", "via", nobody, "dev", "eth0", "table", NOWHERE)
        return self

    def __exit__(self, *_):
        for name in self.names:
            ip("netns", "del", name, check=False)
        ip("link", "del", self.bridge, check=False)

    def shape(self, rate):
        """Every host's link has this rate (as tc reads it, 1gbit) in both directions."""
        for prefix, device in [*((["ip", "netns", "exec", name], "eth0") for name in self.names),
                               *(([], port) for port in self.ports)]:
            for words in (f"qdisc add dev {device} root handle 1: htb default 1",
                          f"class add dev {device} parent 1: classid 1:1 htb rate {rate} ceil {rate} burst 64kb "
                          "cburst 64kb quantum 60000"):
                subprocess.run([*prefix, "tc", *words.split()], check=True, capture_output=True)

    def address(self, host):
        return f"{self.subnet}.{host + 1}"

    def plug(self, host, there):
        ip("link", "set", self.ports[host], *(("master", self.bridge) if there else ("nomaster",)))

    def cut_data(self, host, coordinator_port):
        """Packets of the job's ports are lost on their way; the coordinator's, on host 0, pass."""
        running = []
        for i, name in enumerate(self.names):
            control = f"to {self.address(0)} ipproto tcp dport" if i else "ipproto tcp sport"
            to = "" if i == host else f"to {self.address(host)}"
            rules = f"rule add pref 10 {control} {coordinator_port} lookup main\n"
            rules += "".join(f"rule add pref 20 {to} ipproto tcp {side} {PORTS[0]}-{PORTS[1]} lookup {NOWHERE}\n"
                             for side in ("dport", "sport"))
            process = subprocess.Popen(["ip", "-n", name, "-batch", "-"], stdin=subprocess.PIPE, text=True)
            running.append((process, rules))
        for process, rules in running:  # all at once, as a cable
            process.stdin.write(rules)
            process.stdin.close()
        if any(process.wait() for process, _ in running):
            raise SystemExit("the rules that cut the data plane were not taken")

    def mute(self, host):
        """The host hears the others, and nobody hears it."""
        ip("-n", self.names[host], "rule", "add", "pref", 10, "to", f"{self.subnet}.0/24", "lookup", NOWHERE)

    def network(self):
        """Rules and connections of every host, for whoever asks why a cut was not noticed."""
        text = []
        for name in self.names:
            text += [name, ip("-n", name, "rule", check=False).stdout,
                     subprocess.run(["ip", "netns", "exec", name, "ss", "-tnop"], capture_output=True, text=True).stdout]
        return "\n".join(text)

    def restore(self):
        for name in self.names:
            while ip("-n", name, "rule", "del", "pref", 10, check=False).returncode == 0:
                pass
            while ip("-n", name, "rule", "del", "pref", 20, check=False).returncode == 0:
                pass


class Job:
    """A training job over the hosts; its lines with the time at which they came."""

    def __init__(self, hosts, options, folder):
        self.end_file = pathlib.Path(folder) / "end"
        self.end_file.unlink(missing_ok=True)
        script = pathlib.Path(folder) / "job.py"
        script.write_text(JOB)
        command = [options.ringwood, "run", "--rsh", "ip netns exec", "--network-interface", "eth0",
                   "--trusted-fabric", "--failure-timeout", options.failure_timeout, "--transport",
                   options.transport, "--port-range", f"{PORTS[0]}-{PORTS[1]}", "-H",
                   ",".join(f"{name}:1" for name in hosts.names), "--", sys.executable, script, self.end_file]
        build = pathlib.Path(options.ringwood).resolve().parents[1]
        environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), OMP_NUM_THREADS="1",
                           RINGWOOD_LIBRARY=str(build / "lib" / "libringwood.so"))
        self.process = subprocess.Popen(list(map(str, command)), env=environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.lines = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append((time.monotonic(), line.rstrip()))
                self.changed.notify_all()

    def wait_for(self, pattern, seconds, since=0.0):
        """Time and match of the first line after `since` that has `pattern`; (None, None) if none comes."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while True:
                for when, line in self.lines:
                    found = re.search(pattern, line)
                    if when > since and found:
                        return when, found
                if time.monotonic() > deadline or not self.reader.is_alive():
                    return None, None
                self.changed.wait(0.2)

    def text(self):
        return "\n".join("  | " + line for _, line in self.lines[-40:])

    def stop(self):
        self.end_file.touch()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.reader.join()
        return self.process.wait()


def started(job):
    _, found = job.wait_for(r"coordinator \S+:(\d+)", 120)
    stepping, _ = job.wait_for(r"step \d+", 120)
    if stepping is None:
        raise SystemExit("the job did not start:\n" + job.text())
    return int(found.group(1))


def cut(hosts, options, folder):
    """Seconds until one of the host whose data plane is cut off was named; None if none was."""
    job = Job(hosts, options, folder)
    try:
        coordinator = started(job)
        time.sleep(1)
        hosts.cut_data(VICTIM, coordinator)
        begin = time.monotonic()
        # Its end, with the name and what is wrong with it; that a step stands still is only a warning.
        who = rf"(rank|server) \d+ \(host {hosts.names[VICTIM]}\)"
        named, _ = job.wait_for(rf"{who} (has not answered|hears no peer)", 4 * options.failure_timeout, begin)
        if named is None or options.verbose:
            print(job.text())
        if named is None:
            print(hosts.network())
        return None if named is None else named - begin
    finally:
        hosts.restore()
        job.stop()


def blips(hosts, options, folder):
    """(share, survived, seconds until a further step) for each; the first that kills the job is the last."""
    results = []
    job = Job(hosts, options, folder)
    try:
        started(job)
        for _ in range(options.blips):
            for share in options.shares:
                time.sleep(1)
                length = share * 0.4 * options.failure_timeout
                hosts.plug(VICTIM, False)
                time.sleep(length)
                hosts.plug(VICTIM, True)
                healed = time.monotonic()
                when, _ = job.wait_for(r"step \d+", 4 * options.failure_timeout, healed)
                results.append((share, when is not None, when - healed if when is not None else None))
                if when is None:
                    print(job.text())
                    return results
    finally:
        hosts.plug(VICTIM, True)
        job.stop()
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=1)
    parser.add_argument("--blips", type=int, default=1)
    parser.add_argument("--shares", type=lambda text: [float(each) for each in text.split(",")],
                        default=[0.5, 0.8, 0.9])
    parser.add_argument("--failure-timeout", type=float, default=5)
    parser.add_argument("--slack", type=float, default=1)
    parser.add_argument("--transport", default="ucx")
    parser.add_argument("--ringwood", default=ROOT / "build/release/bin/ringwood")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        return 0
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            hosts = Hosts().__enter__()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"skipped: no network namespaces here: {error}")
            return 0
        try:
            limit = options.failure_timeout + options.slack
            times = [cut(hosts, options, folder) for _ in range(options.cuts)]
            named = [seconds for seconds in times if seconds is not None]
            in_time = sum(seconds <= limit for seconds in named)
            missed += len(times) - in_time
            if times:
                median = f"{statistics.median(named):.2f} s, longest {max(named):.2f} s" if named else "never"
                print(f"cut: named within {limit:g} s: {in_time} of {len(times)}; median {median}", flush=True)
            results = blips(hosts, options, folder) if options.blips else []
            for share in sorted({share for share, _, _ in results}):
                mine = [(survived, seconds) for each, survived, seconds in results if each == share]
                survived = sum(survived for survived, _ in mine)
                missed += options.blips - survived
                longest = max((seconds for _, seconds in mine if seconds is not None), default=float("nan"))
                print(f"blip of {share:g} x {0.4 * options.failure_timeout:g} s: survived {survived} of {options.blips}; "
                      f"longest until a further step {longest:.2f} s")
            missed += bool(options.blips and len(results) < len(options.shares) * options.blips)
        finally:
            hosts.__exit__()
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
