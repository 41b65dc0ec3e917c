#!/usr/bin/env python3
"""Dense all-reduce over gRPC under TLS against plaintext UCX and plaintext gRPC, in turn in one run.

    bench/dense/under_tls.py [--workers 4] [--bytes 102000000] [--rate 1gbit] [--turns 5]

Makes network namespaces with shaped interfaces (bench/netns.sh, needs root) and runs `ringwood bench allreduce` in them
once a turn with each. Prints a line of a Markdown table for each: the median of the turns' median times, the payload rate of an
interface, each way, the rate as a share of UCX's of the same turn (median, least and most), and processor seconds a GB.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from hosts import a_rank_each, shaped_hosts  # noqa: E402

KINDS = {"UCX, plaintext": "ucx", "gRPC, plaintext": "grpc", "gRPC, TLS": "tls"}


def report(options, words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, check=True, text=True, timeout=options.timeout)
    return json.loads(done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1])["results"][0]


@contextlib.contextmanager
def plaintext_server(options, flags):
    """On the first host; where it listens."""
    with subprocess.Popen(["ip", "netns", "exec", f"{options.prefix}0", options.program, "server", "--listen", ":0", *flags,
                           "--servers", "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


def measure(options, kind):
    """TLS is what the launcher does by itself; it makes no plaintext gRPC off loopback, a server by hand may."""
    place = a_rank_each(options.workers, options.prefix)
    bench = ["bench", "allreduce", f"--bytes={options.bytes}", f"--turns={options.inner}", "--json"]
    if kind == "tls":
        return report(options, [options.program, *bench, f"--workers={options.workers}", *place, "--transport", "grpc"])
    private = ["--trusted-fabric", "--transport", kind]
    if kind == "ucx":
        return report(options, [options.program, *bench, f"--workers={options.workers}", *place, *private])
    with plaintext_server(options, ["--network-interface", "eth0", *private]) as address:
        return report(options, [options.program, "run", "--no-server", *place, *private, "-x", f"RINGWOOD_COORDINATOR={address}",
                                "--", options.program, *bench])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--bytes", type=int, default=102_000_000)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--inner", type=int, default=3, help="of `ringwood bench allreduce`, in each turn")
    parser.add_argument("--prefix", default="rwtls")
    parser.add_argument("--program", default=ROOT / "build" / "release" / "bin" / "ringwood")
    parser.add_argument("--timeout", type=float, default=600)
    options = parser.parse_args()
    options.program = os.path.abspath(options.program)
    rows = {name: [] for name in KINDS}
    with shaped_hosts(options.workers, options.rate, options.prefix):
        for _ in range(options.turns):
            for name, kind in KINDS.items():
                rows[name].append(measure(options, kind))
    print(f"| {options.workers} hosts, {options.bytes} bytes | p50 (ms) | Gbit/s | of UCX's rate | CPU s/GB |\n|---|---:|---:|---:|---:|")
    for name, taken in rows.items():
        shares = [ucx["p50_s"] / row["p50_s"] for ucx, row in zip(rows["UCX, plaintext"], taken)]
        print(f"| {name} | {statistics.median(row['p50_s'] for row in taken) * 1e3:.1f} "
              f"| {statistics.median(row['busbw_gbit'] for row in taken):.3f} "
              f"| {statistics.median(shares):.3f} ({min(shares):.3f} to {max(shares):.3f}) "
              f"| {statistics.median(row['cpu_s_per_gb'] for row in taken):.2f} |")


if __name__ == "__main__":
    main()
