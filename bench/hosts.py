"""The benchmarks' hosts: network namespaces with shaped interfaces (netns.sh, needs root)."""

import contextlib
import pathlib
import subprocess
import sys

NETNS = pathlib.Path(__file__).resolve().parent / "netns.sh"


@contextlib.contextmanager
def shaped_hosts(count, rate, prefix):
    """PREFIX0, PREFIX1, … as long as the block runs; `rate` as tc reads it: 1gbit."""
    subprocess.run([NETNS, "up", str(count), rate, prefix], check=True, stdout=sys.stderr)
    try:
        yield
    finally:
        subprocess.run([NETNS, "down", str(count), prefix], check=False, stdout=sys.stderr)


def a_rank_each(count, prefix):
    """Flags of `ringwood run`: a rank on each of shaped_hosts()."""
    return ["--hosts", ",".join(f"{prefix}{host}:1" for host in range(count)), "--rsh", "ip netns exec",
            "--network-interface", "eth0"]
