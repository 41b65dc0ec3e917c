#!/usr/bin/env python3
"""The table of rate_change.sh, from the outputs of its three runs."""

import json
import pathlib
import re
import statistics
import sys

FOLDER = pathlib.Path(sys.argv[1])
LAST = 10  # steps of the end of a phase


def read(name):
    """Seconds of the steps, and (step, line) of the plans that began in the run."""
    text = (FOLDER / name).read_text()
    steps = json.loads(next(line[line.index("{"):] for line in text.splitlines()
                            if '"steps_s"' in line))["steps_s"]
    plans = [(int(found.group(1)), line) for line in text.splitlines()
             if (found := re.search(r"plan \d+ begins with step (\d+)", line))]
    return steps, plans


def main():
    steps, plans = read("changing")
    for _, line in plans:
        print(line)
    print(" ".join(f"{seconds:.3f}" for seconds in steps))
    early = statistics.median(steps[12:22])
    fell = next(i for i in range(22, len(steps)) if min(steps[i:i + 2]) > 1.5 * early)
    slow = statistics.median(steps[fell:fell + 3])
    adapted = next((step for step, _ in plans if step > fell + 1), None)
    if adapted is None:
        sys.exit("no plan followed the fall of the rate")
    low = statistics.median(steps[adapted:adapted + 5])
    rose = next(i for i in range(adapted + 5, len(steps)) if max(steps[i:i + 2]) < 0.8 * low)
    back = next((step for step, _ in plans if step > rose + 1), None)
    fixed = {rate: statistics.median(read(rate)[0][-LAST:]) for rate in ("1gbit", "200mbit")}
    print("| network | plan | a step | against the plan made for it |\n|---|---|---|---|")
    rows = [("1 Gbit/s", "for 1 Gbit/s", steps[fell - LAST:fell], "1gbit"),
            ("200 Mbit/s", "still the one for 1 Gbit/s", steps[fell:adapted - 1], "200mbit"),
            ("200 Mbit/s", f"after {adapted - 1 - fell} steps", steps[rose - LAST:rose], "200mbit"),
            ("1 Gbit/s", f"after {back - 1 - rose} steps" if back else "still the same",
             steps[-LAST:], "1gbit")]
    for network, plan, seconds, rate in rows:
        median = statistics.median(seconds)
        print(f"| {network} | {plan} | {1e3 * median:.0f} ms "
              f"| {100 * (median / fixed[rate] - 1):+.1f} % of {1e3 * fixed[rate]:.0f} ms |")
    print(f"first steps at the low rate: {1e3 * slow:.0f} ms")


main()
