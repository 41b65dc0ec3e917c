#!/usr/bin/env python3
"""What CUDA costs a build, from ninja's log: every source is compiled once, for all devices, within the budget.

    cmake/cuda_seconds.py build/release

Prints a line; fails where a source was compiled for two programs, or where all took longer than the budget. Three
devices take about 30 s of one core, and were seen to take 147 s by the clock beside other work: only another way to
compile exceeds it, not a loaded machine.
"""

import os.path
import re
import sys

BUDGET_SECONDS = 600


def compiled(log):
    """Object → seconds of its last compilation, of all objects that nvcc makes."""
    seconds = {}
    for line in log.splitlines():
        fields = line.split("\t")
        if len(fields) == 5 and fields[3].endswith(".cu.o"):
            seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return seconds


def twice(objects):
    """Sources that more than one target compiles."""
    sources = [re.sub(r".*\.dir/|\.o$", "", path) for path in objects]
    return sorted({source for source in sources if sources.count(source) > 1})


def main(build):
    with open(os.path.join(build, ".ninja_log"), encoding="utf-8") as log, \
            open(os.path.join(build, "build.ninja"), encoding="utf-8") as rules:
        seconds, text = compiled(log.read()), rules.read()
    # The log keeps lines of objects that are none of the build's any more.
    seconds = {path: took for path, took in seconds.items() if f"build {path}:" in text}
    print(f"CUDA: {len(seconds)} sources in {sum(seconds.values()):.0f} s, the budget is {BUDGET_SECONDS} s")
    for source in twice(seconds):
        print(f"{source} is compiled twice")
    return int(bool(twice(seconds)) or sum(seconds.values()) > BUDGET_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
