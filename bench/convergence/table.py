"""What the convergence grid found: a table in Markdown, and a chart.

    python bench/convergence/table.py [--results FILE] [--chart docs/convergence.svg]
"""

import argparse
import json
import pathlib
import statistics
import sys
from collections import defaultdict

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from svg import Canvas  # noqa: E402 (found beside this folder)

LEFT, ROW, WIDTH, TOP = 170, 24, 760, 84   # of the chart, in pixels
STYLES = {4: "blue", 8: "orange"}


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
    """One row a case, one dot a seed: its accuracy less that of the dense run with the same seed."""
    names = sorted({case for case, _ in found if case != "dense"}, key=lambda case: (-float(case.split()[1]), case))
    values = {k: differences(found, *k) for k in found if k[0] != "dense"}
    low = min([-2.5, *(v - 0.3 for row_values in values.values() for v in row_values)])
    high = max([0.5, *(v + 0.3 for row_values in values.values() for v in row_values)])
    bottom = TOP + ROW * len(names)
    canvas = Canvas(WIDTH, bottom + 50)
    canvas.text(16, 26, "Fashion-MNIST: accuracy of sparse exchange less that of dense exchange", size=16, bold=True)
    canvas.text(16, 46, "after two passes over the data; one dot a seed; the case names method and density", style="soft")

    def x(points):
        return LEFT + (points - low) / (high - low) * (WIDTH - LEFT - 20)

    for half in range(round(2 * low), round(2 * high) + 1):
        if not low <= half / 2 <= high:
            continue
        canvas.line(x(half / 2), TOP - 6, x(half / 2), bottom, "grid" if half else "axis")
        canvas.text(x(half / 2), bottom + 16, f"{half / 2:+g}".replace("-", "−") if half else "0", "middle", "soft", 11)
    canvas.text((LEFT + WIDTH - 20) / 2, bottom + 38, "difference in percentage points (linear scale; 0 = as accurate as dense)", "middle")
    for i, name in enumerate(names):
        y = TOP + ROW * i + ROW / 2
        canvas.text(LEFT - 12, y + 4, name, "end")
        for offset, workers in enumerate(sorted({w for case, w in values if case == name})):
            for value in values[name, workers]:
                canvas.dot(x(value), y + 8 * offset - 4, 3.5, STYLES.get(workers, "green"), f"{value:+.2f}")
    for i, workers in enumerate(sorted({w for _, w in values})):
        canvas.dot(22 + 110 * i, 62, 5, STYLES.get(workers, "green"))
        canvas.text(33 + 110 * i, 66, f"{workers} workers")
    return str(canvas)


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
