"""The benchmarks' hosts: network namespaces with shaped interfaces (netns.sh, or far_hosts.cc where the network has a
delay; both need root)."""

import contextlib
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
NETNS = HERE / "netns.sh"
FAR = HERE.parent / "build/release/bin/far_hosts"


def mbits(rate):
    """Of a rate as tc reads it: 1gbit, 100mbit."""
    for unit, factor in (("gbit", 1e3), ("mbit", 1.0)):
        if rate.endswith(unit):
            return float(rate[:-len(unit)]) * factor
    raise SystemExit(f"the rate {rate}: give 1gbit or 100mbit")


@contextlib.contextmanager
def shaped_hosts(count, rate, prefix, delay=0):
    """PREFIX0, PREFIX1, … as long as the block runs; `rate` as tc reads it: 1gbit; `delay` in ms, each way."""
    if delay:
        with far_hosts(count, rate, prefix, delay):
            yield
        return
    subprocess.run([NETNS, "up", str(count), rate, prefix], check=True, stdout=sys.stderr)
    try:
        yield
    finally:
        subprocess.run([NETNS, "down", str(count), prefix], check=False, stdout=sys.stderr)


@contextlib.contextmanager
def far_hosts(count, rate, prefix, delay):
    with subprocess.Popen([FAR, "--count", str(count), "--rate", str(mbits(rate)), "--delay", str(delay),
                           "--prefix", prefix], stdout=subprocess.PIPE, text=True) as carrier:
        try:
            if carrier.stdout.readline() != "ready\n":
                raise SystemExit("far_hosts did not make the hosts")
            yield
        finally:
            carrier.terminate()


def a_rank_each(count, prefix):
    """Flags of `ringwood run`: a rank on each of shaped_hosts()."""
    return ["--hosts", ",".join(f"{prefix}{host}:1" for host in range(count)), "--rsh", "ip netns exec",
            "--network-interface", "eth0"]
