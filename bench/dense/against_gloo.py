"""Dense all-reduce against PyTorch's Gloo, in turn in one run, on hosts with shaped network interfaces.

    bench/dense/against_gloo.py --workers 4 --bytes 4K,64K,256K,1M,102000000 [--wire bf16] [--rate 1gbit] [--delay 10]

Makes network namespaces (bench/netns.sh, needs root), runs `ringwood bench allreduce --peer gloo` in
them and prints what a hop was measured to cost, and a line of a Markdown table for each size. `limit`
is the time that the bytes of a ring, 2(P-1)/P of the tensor, take at the payload rate of the interface; `of
limit` is limit / median.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
from hosts import mbits, shaped_hosts  # noqa: E402

PAYLOAD = 0.956  # of the rate: Ethernet, IP and TCP headers at 1500 bytes a packet


def bench(options):
    hosts = ",".join(f"{options.prefix}{i}" for i in range(options.workers))
    command = [options.program, "bench", "allreduce", f"--workers={options.workers}",
               f"--bytes={options.bytes}", f"--hosts={hosts}", "--rsh=ip netns exec",
               "--network-interface=eth0", "--trusted-fabric", f"--wire={options.wire}",
               f"--turns={options.turns}", f"--python={options.python}", "--json"]
    if options.adapt:
        command.append("--adapt")
    if not options.alone:
        command.append("--peer=gloo")
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=options.timeout)
    return json.loads(done.stdout)


def share_of_bytes(wire, workers):
    """What a ring sends for a byte of the tensor, on average over its messages."""
    if not wire.startswith("int"):
        return 0.5 if wire == "bf16" else 1
    levels = 2 ** (int(wire[3:]) - 1) - 1
    widths = [(2 * levels * terms).bit_length() for terms in range(1, workers + 1)]
    codes = (sum(widths[:-1]) / (workers - 1) + widths[-1]) / 2
    return (codes + 8 / 64) / 32  # and a byte for a block of 64 elements


def line(row, workers, wire, rate):
    size = share_of_bytes(wire, workers)
    limit = row["bytes"] * size * 8 * 2 * (workers - 1) / workers / (rate * PAYLOAD * 1e9)
    cells = [workers, row["bytes"], wire, f"{limit * 1e3:.3f}", f"{row['p50_s'] * 1e3:.3f}",
             f"{row['p99_s'] * 1e3:.3f}", f"{limit / row['p50_s']:.2f}", f"{row['cpu_s_per_gb']:.2f}"]
    if "peer" in row:
        cells += [f"{row['peer']['p50_s'] * 1e3:.3f}", f"{row['peer']['cpu_s_per_gb']:.2f}",
                  f"{row['ratio']:.2f}", f"{row['ratio_min']:.2f}–{row['ratio_max']:.2f}"]
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--bytes", default="4K,64K,256K,1M,102000000")
    parser.add_argument("--wire", default="fp32", choices=("fp32", "bf16", "int8", "int4"))
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--delay", type=float, default=0, help="of the network, each way, in milliseconds")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--alone", action="store_true", help="without Gloo")
    parser.add_argument("--adapt", action="store_true", help="schedules by the measured cost")
    parser.add_argument("--prefix", default="rwgloo", help="of the namespaces' names")
    parser.add_argument("--keep", action="store_true", help="the namespaces are there and stay")
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/bin/ringwood"))
    parser.add_argument("--python", default=sys.executable, help="an interpreter with PyTorch")
    parser.add_argument("--raw", help="append the JSON to this file")
    parser.add_argument("--timeout", type=float, default=230)
    options = parser.parse_args()
    hosts = shaped_hosts(options.workers, options.rate, options.prefix, options.delay)
    with contextlib.nullcontext() if options.keep else hosts:
        report = bench(options)
    if options.raw:
        with open(options.raw, "a") as raw:
            raw.write(json.dumps(report) + "\n")
    print(f"measured {report['measured']}; switches {report['switches']}", flush=True)
    for row in report["results"]:
        print(line(row, options.workers, options.wire, mbits(options.rate) / 1e3), flush=True)


if __name__ == "__main__":
    main()
