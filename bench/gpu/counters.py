"""What Nsight Compute says of kernels, from standard input, which is passed on: a line of JSON for each launch.

    ncu --csv --page details --section SpeedOfLight --section Occupancy --section LaunchStats … | counters.py"""

import csv
import json
import re
import sys

COUNTERS = {"Duration": "duration", "DRAM Throughput": "dram_percent", "Compute (SM) Throughput": "sm_percent",
            "L1/TEX Cache Throughput": "l1_percent", "L2 Cache Throughput": "l2_percent",
            "Achieved Occupancy": "occupancy_percent", "Theoretical Occupancy": "theoretical_occupancy_percent",
            "Registers Per Thread": "registers", "Grid Size": "blocks", "Block Size": "threads"}
FORBIDDEN = "ERR_NVGPUCTRPERM"


def kernel_name(text):
    """AccumulateKernel<(bool)1> of "void ringwood::cuda::<unnamed>::AccumulateKernel<(bool)1>(GroupView)"."""
    found = re.search(r"\w+Kernel(?:<[^<>]*>)?", text)
    return found[0] if found else text


def number(text):
    """None where the profiler has no number, as "n/a"."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def launches(lines):
    """Of each launch its kernel and counters; a duration is in microseconds."""
    table = [line for line in lines if line.startswith('"')]
    found = {}
    for row in csv.DictReader(table):
        counter = COUNTERS.get(row.get("Metric Name"))
        value = number(row["Metric Value"]) if counter else None
        if value is None:
            continue
        if counter == "duration":
            counter = "duration_us"
            value *= {"second": 1e6, "s": 1e6, "msecond": 1e3, "ms": 1e3, "usecond": 1, "us": 1, "nsecond": 1e-3,
                      "ns": 1e-3}[row["Metric Unit"]]
        found.setdefault(row["ID"], {"kernel": kernel_name(row["Kernel Name"])})[counter] = value
    return list(found.values())


def main():
    lines = sys.stdin.read().splitlines()
    print("\n".join(lines))
    found = launches(lines)
    for launch in found:
        print(json.dumps(launch))
    if any(FORBIDDEN in line for line in lines):
        return print("skipped: this user may not read the device's counters")
    return 0 if found else "Nsight Compute told of no kernel"


if __name__ == "__main__":
    sys.exit(main())
