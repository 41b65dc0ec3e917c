#!/usr/bin/env python3
"""Draws docs/performance.svg from the first table of docs/performance.md: Ringwood, Gloo and the wire's limit.

    bench/dense/chart.py                            # after a row of the table has changed
"""
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parent.parent / "docs"
sys.path.insert(0, str(HERE.parent))
from svg import Canvas  # noqa: E402 (found beside this folder)

HEAD = "| hosts | bytes | limit | ours p50 | ours p99 |"
SERIES = [("limit", "limit of the wire", "soft"), ("ours", "Ringwood", "blue"), ("gloo", "Gloo", "orange")]
LEFT, TOP, SIDE, HEIGHT, GAP = 70, 104, 350, 260, 60  # of a panel, in pixels
BYTES, SECONDS = (2.0**11.5, 2.0**28), (0.03, 3000)  # the axes' ends, SECONDS in milliseconds


def rows():
    lines = (DOCS / "performance.md").read_text().split(HEAD)[1].splitlines()[2:]
    for line in lines:
        if not line.startswith("|"):
            return
        cells = [cell.strip().replace(",", "") for cell in line.strip("|").split("|")]
        yield {"hosts": int(cells[0]), "bytes": float(cells[1]), "limit": float(cells[2]), "ours": float(cells[3]),
               "gloo": float(cells[6])}


def label(amount):
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if amount >= unit:
            return f"{amount / unit:g} {name}"
    return f"{amount:g} B"


def panel(canvas, left, hosts, found):
    def x(amount):
        return left + SIDE * math.log(amount / BYTES[0]) / math.log(BYTES[1] / BYTES[0])

    def y(milliseconds):
        return TOP + HEIGHT * (1 - math.log(milliseconds / SECONDS[0]) / math.log(SECONDS[1] / SECONDS[0]))

    canvas.text(left, TOP - 12, f"{hosts} hosts", bold=True)
    for milliseconds in (0.1, 1, 10, 100, 1000):
        canvas.line(left, y(milliseconds), left + SIDE, y(milliseconds), "grid")
        canvas.text(left - 8, y(milliseconds) + 4, f"{milliseconds:g} ms", "end", "soft", 11)
    for power in (12, 16, 20, 24, 27):
        canvas.text(x(2**power), TOP + HEIGHT + 18, label(2**power), "middle", "soft", 11)
        canvas.line(x(2**power), TOP + HEIGHT, x(2**power), TOP + HEIGHT + 4, "axis")
    canvas.line(left, TOP + HEIGHT, left + SIDE, TOP + HEIGHT, "axis")
    for key, name, style in SERIES:
        points = [(x(row["bytes"]), y(row[key]), row[key]) for row in found]
        for (x1, y1, _), (x2, y2, _) in zip(points, points[1:]):
            canvas.line(x1, y1, x2, y2, "axis" if key == "limit" else style, 1 if key == "limit" else 2)
        for x1, y1, milliseconds in points if key != "limit" else []:
            canvas.dot(x1, y1, 4, style, f"{name}: {milliseconds:g} ms")
    canvas.text(left + SIDE / 2, TOP + HEIGHT + 40, "size of the tensor (logarithmic)", "middle")


def main():
    found = list(rows())
    canvas = Canvas(2 * (LEFT + SIDE) + GAP - 20, TOP + HEIGHT + 56)
    canvas.text(16, 26, "All-reduce of fp32 at 1 Gbit/s: Ringwood, Gloo and the limit of the wire", size=16, bold=True)
    canvas.text(16, 46, "median time (logarithmic), one rank a host; lower is better", style="soft")
    for i, (key, name, style) in enumerate(SERIES[1:] + SERIES[:1]):
        at = 22 + 110 * i
        if key == "limit":
            canvas.line(at - 8, 62, at + 8, 62, "axis")
        else:
            canvas.dot(at, 62, 5, style)
        canvas.text(at + 14, 66, name)
    for i, hosts in enumerate(sorted({row["hosts"] for row in found})):
        panel(canvas, LEFT + i * (SIDE + GAP + 20), hosts, [row for row in found if row["hosts"] == hosts])
    (DOCS / "performance.svg").write_text(str(canvas))


if __name__ == "__main__":
    main()
