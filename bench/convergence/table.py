"""What the convergence grid found: a table in Markdown, and a chart.

    python bench/convergence/table.py [--results FILE] [--chart docs/convergence.svg]
    python bench/convergence/table.py --passes 8 [--level 0.915]
    python bench/convergence/table.py --model lstm --passes 100 [--level 8]

--level adds after how many steps a run came to that accuracy or perplexity. Where dense was not run with as many workers,
the dense run of the same seed stands for it: it differs by the order of its sums alone.
"""

import argparse
import json
import pathlib
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from svg import Canvas  # noqa: E402 (found beside this folder)

LEFT, ROW, WIDTH, TOP = 170, 24, 760, 84   # of the chart, in pixels
STYLES = {4: "blue", 8: "orange"}


@dataclass(frozen=True)
class Metric:
    name: str
    column: str      # what its differences are
    better: int      # 1: higher is better
    relative: bool   # differences in per cent of dense instead of points

    def above(self, report, dense):
        value, plain = report[self.name], dense[self.name]
        return 100 * (value / plain - 1) if self.relative else 100 * (value - plain)

    def first(self, curve, level):
        """The first step at which `curve` is there; None: never."""
        return next((step for step, _, value in curve if self.better * (value - level) >= 0), None)


METRICS = {"cnn": Metric("accuracy", "points from dense", 1, False),
           "lstm": Metric("perplexity", "per cent above dense", -1, True)}


def read(path, model="cnn", passes=2):
    """{(case, workers): {seed: report}}, cases in the order of their first lines."""
    found = defaultdict(dict)
    for line in path.read_text().splitlines():
        report = json.loads(line)
        if (report.get("model", "cnn"), report["passes"], report.get("rate")) == (model, passes, None):
            found[report["case"], report["workers"]][report["seed"]] = report
    return found


def dense_of(found, workers):
    """{seed: report}"""
    every = {seed: report for (case, _), reports in found.items() if case == "dense" for seed, report in reports.items()}
    return {**every, **found.get(("dense", workers), {})}


def differences(found, case, workers, metric=METRICS["cnn"]):
    """Above dense, of each seed that both have."""
    dense = dense_of(found, workers)
    return [metric.above(report, dense[seed]) for seed, report in sorted(found[case, workers].items()) if seed in dense]


def bytes_of(report):
    return report["bytes_per_step"]["dense"] + report["bytes_per_step"]["sparse"]


def delta_range(reports):
    """Lowest and highest δ over tensors and seeds, each the median over the measured steps."""
    medians = [statistics.median(value for _, value in series)
               for report in reports for series in report["delta"].values()]
    return f"{min(medians):.2f} … {max(medians):.2f}" if medians else "–"


def steps_to(reports, metric, level):
    """How many steps each took to `level`."""
    return ", ".join(str(metric.first(report["curve"], level) or "never") for _, report in sorted(reports.items()))


def row(found, case, workers, metric, level):
    reports = list(found[case, workers].values())
    values = [report[metric.name] for report in reports]
    difference = [] if case == "dense" else differences(found, case, workers, metric)
    mean = f"{statistics.mean(difference):+.2f}" if difference else ""
    worst = f"{metric.better * min(metric.better * each for each in difference):+.2f}" if difference else ""
    last = steps_to(found[case, workers], metric, level) if level else delta_range(reports)
    return (f"| {case} | {workers} | {len(reports)} | {statistics.mean(values):.4f} | {mean} | {worst} | "
            f"{statistics.mean(map(bytes_of, reports)) / 1000:,.0f} | {last} |")


def table(found, metric, level=None):
    last = f"steps to {level:g}" if level else "δ"
    return "\n".join([f"| case | workers | seeds | {metric.name} | {metric.column}, mean | worst | kB a rank and step | {last} |",
                      "|---|---:|---:|---:|---:|---:|---:|---|",
                      *(row(found, case, workers, metric, level)
                        for case, workers in sorted(found, key=lambda k: (k[1], k[0])))])


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
    parser.add_argument("--model", default="cnn", choices=METRICS)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--level", type=float, help="of accuracy or perplexity")
    arguments = parser.parse_args()
    if arguments.chart and (arguments.model, arguments.passes) != ("cnn", 2):
        parser.error("--chart has its scale for --model cnn --passes 2")
    found = read(arguments.results, arguments.model, arguments.passes)
    print(table(found, METRICS[arguments.model], arguments.level))
    if arguments.chart:
        arguments.chart.write_text(chart(found))


if __name__ == "__main__":
    main()
