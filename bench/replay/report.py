#!/usr/bin/env python3
"""Tables (Markdown) and a chart (SVG) of what measure.py appended.

    bench/replay/report.py [--results FILE] [--chart docs/replay.svg] > tables.md
    bench/replay/report.py --results bench/replay/predictions.jsonl

A ratio is of a run to DDP's run of the same round; its median is given, and least and most. "possible" is what the planner's model says of the plan on an ideal 1 Gbit/s link: 956 Mbit/s of
payload, 0.1 ms a hop, compute as slept, everything else free.
"""
import argparse
import collections
import functools
import json
import math
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from svg import Canvas  # noqa: E402 (found beside this folder)

AGAINST_DDP = {**{wire: wire for wire in ("fp32", "bf16", "int8", "int4")}, "hybrid": "hybrid, density 0.001"}
NAMES = {"bert": "BERT", "resnet50": "ResNet-50", "vgg16": "VGG-16"}
PLAN_FLAGS = {"ddp": ["--planner", "fixed"],
              **{wire: ["--planner", "exact", "--wire", wire] for wire in ("fp32", "bf16", "int8", "int4")},
              "hybrid": ["--planner", "hybrid", "--density", "0.001"]}
STYLES = {"fp32": "orange", "bf16": "blue", "int8": "teal", "int4": "violet", "hybrid": "green"}


@functools.lru_cache
def possible(program, trace, hosts, variant):
    command = [program, "plan", "--trace", str(ROOT / f"data/espresso/{trace}.csv"), "--network",
               "alpha=1e-4,beta=8.37e-9", "--workers", str(hosts), "--servers", str(hosts), "--forward", "0.03",
               "--json", *PLAN_FLAGS.get(variant, ["--planner", variant])]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return answer["predicted_seconds"] if "predicted_seconds" in answer else answer["iteration_seconds"]


def read(path):
    """(trace, hosts) → variant → its runs, in the order in which they were made."""
    cases = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in path.read_text().splitlines():
        row = json.loads(line)
        cases[row["trace"], row["hosts"]][row["variant"]].append(row)
    return cases


def ratios(case, variant):
    """Of each run to DDP's run of its round: the one that was made nearest to it."""
    return [min(case["ddp"], key=lambda ddp: abs(ddp["at"] - run["at"]))["median_s"] / run["median_s"]
            for run in case.get(variant, []) if "ddp" in case]


def median_of(runs, field="median_s"):
    return statistics.median(run[field] for run in runs)


def against_ddp(cases, program):
    lines = ["| model | hosts | variant | DDP | Ringwood | DDP ÷ Ringwood (least, most; rounds) | possible | busy cores |",
             "|---|---|---|---|---|---|---|---|"]
    for (trace, hosts), case in sorted(cases.items()):
        for variant, name in AGAINST_DDP.items():
            if not ratios(case, variant):
                continue
            values = ratios(case, variant)
            lines.append(
                f"| {trace} | {hosts} | {name} | {median_of(case['ddp']):.3f} s | {median_of(case[variant]):.3f} s "
                f"| **{statistics.median(values):.3f}** ({min(values):.2f}, {max(values):.2f}; {len(values)}) "
                f"| {possible(program, trace, hosts, variant):.3f} s | {median_of(case[variant], 'busy_cores'):.1f} |")
    return "\n".join(lines)


def predictions(cases):
    lines = ["| model | hosts | plan | predicted | measured | off by |", "|---|---|---|---|---|---|"]
    for (trace, hosts), case in sorted(cases.items()):
        for variant, runs in case.items():
            runs = [run for run in runs if "predicted_s" in run]
            if not runs:
                continue
            off = statistics.median(run["predicted_s"] / run["median_s"] - 1 for run in runs)
            lines.append(f"| {trace} | {hosts} | {variant} | {median_of(runs, 'predicted_s'):.3f} s "
                         f"| {median_of(runs):.3f} s | {100 * off:+.1f} % |")
    return "\n".join(lines)


def legend(canvas, x, y):
    for variant, style in STYLES.items():
        canvas.dot(x, y - 4, 5, style)
        canvas.text(x + 11, y, AGAINST_DDP[variant])
        x += 85 if variant != "hybrid" else 165
    canvas.diamond(x, y - 4, 5, "mark")
    canvas.text(x + 11, y, "what an ideal link would allow")


def chart(cases, program):
    """How many times faster than DDP a step is: a dot is measured (its line begins at DDP's own time), a diamond is
    what the planner's model says is possible. The scale is logarithmic: 1.01 times and 27 times have to fit."""
    rows = [(case_name, variant, statistics.median(ratios(case, variant)),
             median_of(case["ddp"]) / possible(program, *case_name, variant))
            for case_name, case in sorted(cases.items()) for variant in AGAINST_DDP if ratios(case, variant)]
    left, width, row, top, least, most = 178, 640, 20, 92, 0.8, 50
    bottom = top + row * len(rows) + 10 * (len({name for name, *_ in rows}) - 1)
    canvas = Canvas(left + width + 40, bottom + 56)
    canvas.text(16, 26, "A training step: PyTorch DDP's time divided by Ringwood's", size=16, bold=True)
    canvas.text(16, 46, "4 and 8 hosts at 1 Gbit/s, measured compute times of GPUs replayed; further right is faster",
                style="soft")
    legend(canvas, 22, 70)

    def x(value):
        return left + width * math.log(value / least) / math.log(most / least)

    for tick in (0.8, 1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50):
        canvas.line(x(tick), top - 6, x(tick), bottom, "axis" if tick == 1 else "grid")
        canvas.text(x(tick), bottom + 18, f"{tick:g}×", "middle", "soft", size=11)
    canvas.text(left + width / 2, bottom + 42, "times faster than DDP (logarithmic scale; 1× = as fast as DDP)",
                "middle")
    y, before = top - 10, None
    for case_name, variant, reached, best in rows:
        if case_name != before:
            y, before = y + (10 if before else 0), case_name
            canvas.text(16, y + row + 1, f"{NAMES.get(case_name[0], case_name[0])}, {case_name[1]} hosts", bold=True)
        y += row
        canvas.line(x(1), y - 3, x(reached), y - 3, STYLES[variant], 3)
        canvas.diamond(x(best), y - 3, 5, "mark", f"possible: {best:.2f}")
        canvas.dot(x(reached), y - 3, 4.5, STYLES[variant], f"measured: {reached:.2f}")
        # A label stands left of 1× where the dot lies at it, else right of the dot or of a diamond in its way.
        if reached < 1.1:
            canvas.text(x(min(reached, 1)) - 9, y + 1, f"{reached:.2f}", "end", size=11)
        else:
            hidden = x(reached) < x(best) < x(reached) + 48
            canvas.text(x(best if hidden else reached) + 9, y + 1, f"{reached:.2f}", size=11)
    return str(canvas)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "results.jsonl")
    parser.add_argument("--chart", type=pathlib.Path)
    parser.add_argument("--ringwood", default=str(ROOT / "build/release/bin/ringwood"))
    given = parser.parse_args()
    cases = read(given.results)
    tables = [against_ddp(cases, given.ringwood), predictions(cases)]
    print("\n\n".join(table for table in tables if table.count("\n") > 1))  # more than a head
    if given.chart:
        given.chart.write_text(chart(cases, given.ringwood))


if __name__ == "__main__":
    main()
