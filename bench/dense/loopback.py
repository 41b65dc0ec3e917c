#!/usr/bin/env python3
"""bf16, int8 and int4 against fp32 on loopback, where the network is no reason to encode.

    bench/dense/loopback.py [--ranks 4] [--bytes 65536,1048576,102000000] [--turns 3]

Runs all_reduce_bench with each format in turn. Prints a line of a Markdown table for each: the medians of the
turns' median times, how much later than fp32 the result was, and what the planner says encoding and decoding
cost (RingCodec of plan/model/cost.cc): no format should be later than fp32 by more than that.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODING = {"fp32": 0, "bf16": 2e-10, "int8": 3.25e-10, "int4": 3.25e-10}  # seconds a byte of fp32, encode + decode


def measure(given, size, wire):
    command = [given.program, str(given.ranks), str(size), "lo", "", wire]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return json.loads(done.stdout[done.stdout.index("{"):])["p50_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--bytes", default="65536,1048576,102000000")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/all_reduce_bench"))
    given = parser.parse_args()
    print("| bytes | wire | time | later than fp32 by | coding, by the planner |\n|--:|---|--:|--:|--:|")
    for size in map(int, given.bytes.split(",")):
        times = {wire: [] for wire in CODING}
        for _ in range(given.turns):
            for wire, seconds in times.items():
                seconds.append(measure(given, size, wire))
        whole = statistics.median(times["fp32"])
        for wire, seconds in times.items():
            median = statistics.median(seconds)
            print(f"| {size} | {wire} | {1e3 * median:.2f} ms | {1e3 * (median - whole):+.2f} ms "
                  f"| {1e3 * CODING[wire] * size:.2f} ms |", flush=True)


if __name__ == "__main__":
    main()
