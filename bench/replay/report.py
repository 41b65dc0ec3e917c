"""Tables (Markdown) and a chart (SVG) of what measure.py appended.

    bench/replay/report.py [--results FILE] [--chart docs/replay.svg] > tables.md
    bench/replay/report.py --results bench/replay/predictions.jsonl

A ratio is of two runs of one round (the i-th of DDP and the i-th of the variant); its median is given, and
least and most. "possible" is what the planner's model says of the plan on an ideal 1 Gbit/s link: 956 Mbit/s of
payload, 0.1 ms a hop, compute as slept, everything else free.
"""
import argparse
import collections
import functools
import html
import json
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
AGAINST_DDP = {"fp32": "fp32", "bf16": "bf16", "hybrid": "hybrid, density 0.001"}
PLAN_FLAGS = {"ddp": ["--planner", "fixed"], "fp32": ["--planner", "exact"], "bf16": ["--planner", "exact", "--bf16"],
              "hybrid": ["--planner", "hybrid", "--density", "0.001"]}
COLOURS = {"fp32": "#d9822b", "bf16": "#2b6cb0", "hybrid": "#4d9221"}


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
    return [ddp["median_s"] / run["median_s"] for ddp, run in zip(case.get("ddp", []), case.get(variant, []))]


def median_of(runs, field="median_s"):
    return statistics.median(run[field] for run in runs)


def against_ddp(cases, program):
    lines = ["| trace | hosts | variant | DDP | Ringwood | DDP ÷ Ringwood (least, most; rounds) | possible | busy cores |",
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
    lines = ["| trace | hosts | plan | predicted | measured | off by |", "|---|---|---|---|---|---|"]
    for (trace, hosts), case in sorted(cases.items()):
        for variant, runs in case.items():
            runs = [run for run in runs if "predicted_s" in run]
            if not runs:
                continue
            off = statistics.median(run["predicted_s"] / run["median_s"] - 1 for run in runs)
            lines.append(f"| {trace} | {hosts} | {variant} | {median_of(runs, 'predicted_s'):.3f} s "
                         f"| {median_of(runs):.3f} s | {100 * off:+.1f} % |")
    return "\n".join(lines)


def chart(cases, program):
    """Bars: times DDP's speed that was reached; a black mark: what the model says is possible."""
    rows = [(case_name, variant, statistics.median(ratios(case, variant)),
             median_of(case["ddp"]) / possible(program, *case_name, variant))
            for case_name, case in sorted(cases.items()) for variant in AGAINST_DDP if ratios(case, variant)]
    left, width, height = 170, 640, 22
    most = max(max(reached, best) for _, _, reached, best in rows)

    def x(value):  # a tenfold speed-up and a 1.01-fold one fit on a square root's scale
        return left + width * (value / most) ** 0.5

    parts = []
    ticks = [tick for tick in (0.25, 1, 2, 5, 10, 20, 50) if tick <= most]
    for tick in ticks:
        parts.append(f'<line x1="{x(tick):.1f}" y1="30" x2="{x(tick):.1f}" y2="{40 + height * len(rows)}" stroke="'
                     f'{"#444" if tick == 1 else "#ddd"}"/><text x="{x(tick):.1f}" y="24" text-anchor="middle" '
                     f'font-size="11">{tick:g}×</text>')
    for number, ((trace, hosts), variant, reached, best) in enumerate(rows):
        y = 38 + height * number
        name = html.escape(f"{trace}, {hosts} hosts, {variant}")
        # The figure stands behind the mark where it would lie under it.
        hidden = x(reached) - 2 < x(best) < x(reached) + 36
        label = x(best if hidden else reached) + 5
        parts.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end" font-size="11">{name}</text>'
                     f'<rect x="{left}" y="{y}" width="{x(reached) - left:.1f}" height="{height - 6}" '
                     f'fill="{COLOURS[variant]}"/><text x="{label:.1f}" y="{y + 12}" font-size="11" '
                     f'fill="#333">{reached:.2f}</text><rect x="{x(best) - 1.5:.1f}" y="{y - 2}" width="3" '
                     f'height="{height - 2}" fill="black"><title>possible: {best:.2f}</title></rect>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 60}" height="{60 + height * len(rows)}" '
            'font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>' + "\n".join(parts) + "</svg>\n")


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
