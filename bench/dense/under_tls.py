#!/usr/bin/env python3
"""Dense all-reduce over gRPC under TLS against plaintext UCX and plaintext gRPC, in turn in one run.

    bench/dense/under_tls.py [--workers 4] [--bytes 102000000] [--rate 1gbit] [--turns 5]

Makes network namespaces with shaped interfaces (bench/netns.sh, needs root) and runs `ringwood bench allreduce` in them
once a turn with each. Prints a line of a Markdown table for each: the median of the turns' median times, the payload rate of an
interface, each way, the rate as a share of UCX's of the same turn (median, least and most), and processor seconds a GB.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETNS = ROOT / "bench" / "netns.sh"
KINDS = {"UCX, plaintext": "ucx", "gRPC, plaintext": "grpc", "gRPC, TLS": "tls"}


def command(options, kind):
    """TLS is what the launcher does by itself; it makes no plaintext gRPC off loopback, a server by hand may."""
    hosts = ",".join(f"{options.prefix}{i}" for i in range(options.workers))
    place = ["--hosts", hosts, "--rsh", "ip netns exec", "--network-interface", "eth0"]
    bench = ["bench", "allreduce", f"--bytes={options.bytes}", f"--turns={options.inner}", "--json"]
    if kind == "tls":
        return [options.program, *bench, f"--workers={options.workers}", *place, "--transport", "grpc"]
    if kind == "ucx":
        return [options.program, *bench, f"--workers={options.workers}", *place, "--trusted-fabric", "--transport", "ucx"]
    plaintext = ["--network-interface", "eth0", "--trusted-fabric", "--transport", "grpc"]
    return ["ip", "netns", "exec", f"{options.prefix}0", options.program, "server", *plaintext, "--servers", "0", "--",
            options.program, "run", "--no-server", "-np", str(options.workers), *place, "--trusted-fabric", "--transport", "grpc",
            "-x", "RINGWOOD_COORDINATOR", "-x", "RINGWOOD_TOKEN", "--", options.program, *bench]


def measure(options, kind):
    done = subprocess.run([str(word) for word in command(options, kind)], stdout=subprocess.PIPE, check=True, text=True,
                          timeout=options.timeout)
    return json.loads(done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1])["results"][0]


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
    subprocess.run([NETNS, "up", str(options.workers), options.rate, options.prefix], check=True)
    try:
        for _ in range(options.turns):
            for name, kind in KINDS.items():
                rows[name].append(measure(options, kind))
    finally:
        subprocess.run([NETNS, "down", str(options.workers), options.prefix], check=True)
    print(f"| {options.workers} hosts, {options.bytes} bytes | p50 (ms) | Gbit/s | of UCX's rate | CPU s/GB |\n|---|---:|---:|---:|---:|")
    for name, taken in rows.items():
        shares = [ucx["p50_s"] / row["p50_s"] for ucx, row in zip(rows["UCX, plaintext"], taken)]
        print(f"| {name} | {statistics.median(row['p50_s'] for row in taken) * 1e3:.1f} "
              f"| {statistics.median(row['busbw_gbit'] for row in taken):.3f} "
              f"| {statistics.median(shares):.3f} ({min(shares):.3f} to {max(shares):.3f}) "
              f"| {statistics.median(row['cpu_s_per_gb'] for row in taken):.2f} |")


if __name__ == "__main__":
    main()
