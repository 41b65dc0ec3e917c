"""What the convergence grid found: a table in Markdown, and a chart.

    python bench/convergence/table.py [--results FILE] [--chart docs/convergence.svg]
"""

import argparse
import json
import pathlib
import statistics
from collections import defaultdict

HERE = pathlib.Path(__file__).resolve().parent
LEFT, ROW, WIDTH, TOP = 190, 22, 680, 46   # of the chart, in pixels
COLORS = {4: "#1b6ca8", 8: "#c2571a"}
OTHER_COLOR = "#444444"


def read(path):
    """{(case, workers): {seed: report}}, cases in the order of their first lines."""
    found = defaultdict(dict)
    for line in path.read_text().splitlines():
        report = json.loads(line)
        found[report["case"], report["workers"]][report["seed"]] = report
    return found


def differences(found, case, workers):
    """Points of accuracy above dense, of each seed that both have."""
    dense = found.get(("dense", workers), {})
    return [100 * (report["accuracy"] - dense[seed]["accuracy"])
            for seed, report in sorted(found[case, workers].items()) if seed in dense]


def bytes_of(report):
    return report["bytes_per_step"]["dense"] + report["bytes_per_step"]["sparse"]


def delta_range(reports):
    """Lowest and highest δ over tensors and seeds, each the median over the measured steps."""
    medians = [statistics.median(value for _, value in series)
               for report in reports for series in report["delta"].values()]
    return f"{min(medians):.2f} … {max(medians):.2f}" if medians else "–"


def row(found, case, workers):
    reports = list(found[case, workers].values())
    accuracies = [report["accuracy"] for report in reports]
    difference = differences(found, case, workers)
    points = "" if case == "dense" or not difference else f"{statistics.mean(difference):+.2f}"
    least = "" if case == "dense" or not difference else f"{min(difference):+.2f}"
    return (f"| {case} | {workers} | {len(reports)} | {statistics.mean(accuracies):.4f} | {points} | {least} | "
            f"{statistics.mean(map(bytes_of, reports)) / 1000:,.0f} | {delta_range(reports)} |")


def table(found):
    return "\n".join(["| case | workers | seeds | accuracy | points from dense, mean | worst | kB a rank and step | δ |",
                      "|---|---:|---:|---:|---:|---:|---:|---|",
                      *(row(found, case, workers) for case, workers in sorted(found, key=lambda k: (k[1], k[0])))])


def chart(found):
    """One row a case: the difference of every seed as a dot, to the right of 0 is better than dense."""
    names = sorted({case for case, _ in found if case != "dense"})
    values = {k: differences(found, *k) for k in found if k[0] != "dense"}
    low = min([-2.5, *(v - 0.3 for row_values in values.values() for v in row_values)])
    high = max([1.0, *(v + 0.3 for row_values in values.values() for v in row_values)])
    height = TOP + ROW * len(names) + 40

    def x(points):
        return LEFT + (points - low) / (high - low) * (WIDTH - LEFT - 20)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             f'<text x="{LEFT}" y="18" font-size="14">Accuracy against dense, points (each dot a seed)</text>']
    for points in range(int(low), int(high) + 1):
        stroke = "#000" if points == 0 else "#ddd"
        parts.append(f'<line x1="{x(points):.1f}" x2="{x(points):.1f}" y1="{TOP - 8}" y2="{height - 32}" stroke="{stroke}"/>')
        parts.append(f'<text x="{x(points):.1f}" y="{height - 16}" text-anchor="middle">{format(points, "+d") if points else 0}</text>')
    for i, name in enumerate(names):
        y = TOP + ROW * i + ROW / 2
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{name}</text>')
        for offset, workers in enumerate(sorted({w for case, w in values if case == name})):
            for value in values[name, workers]:
                parts.append(f'<circle cx="{x(value):.1f}" cy="{y + 5 * offset - 2:.1f}" r="3.5" '
                             f'fill="{COLORS.get(workers, OTHER_COLOR)}" fill-opacity="0.75"/>')
    for i, workers in enumerate(sorted({w for _, w in values})):
        parts.append(f'<text x="{LEFT + 110 * i}" y="34" fill="{COLORS.get(workers, OTHER_COLOR)}">● {workers} workers</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "results.jsonl")
    parser.add_argument("--chart", type=pathlib.Path, metavar="FILE.svg")
    arguments = parser.parse_args()
    found = read(arguments.results)
    print(table(found))
    if arguments.chart:
        arguments.chart.write_text(chart(found))


if __name__ == "__main__":
    main()
