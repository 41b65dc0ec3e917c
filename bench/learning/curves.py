"""The chart of simulated.jsonl: for each model the training loss, and how far the cases are from fp32's.

    python bench/learning/curves.py --chart docs/few_bits.svg [--workers 4]
"""

import argparse
import math
import pathlib
import statistics
import sys

from models import MODELS  # beside this file
from runs import lines

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from svg import Canvas  # noqa: E402

NAMES = {"cnn": "CNN, SGD", "lstm": "LSTM, SGD", "gpt": "GPT, AdamW"}
CASES = {"int8": "blue", "int4": "orange", "hops 5": "green"}
LEFT, TOP, WIDTH, HEIGHT, GAP = 64, 84, 240, 130, 66
PER_CENT = 3.0  # what the lower panels show, either way


class Panel:
    """Curves over the share of the steps that are done; `low` and `high`: of the values, which are cut to them."""

    def __init__(self, canvas, x, y, low, high):
        self.canvas, self.x, self.y, self.low, self.high = canvas, x, y, low, high

    def at(self, share, value):
        cut = min(max(value, self.low), self.high)
        return self.x + share * WIDTH, self.y + HEIGHT * (self.high - cut) / (self.high - self.low)

    def ticks(self, values, form):
        for value in values:
            y = self.at(0, value)[1]
            self.canvas.line(self.x, y, self.x + WIDTH, y, "grid")
            self.canvas.text(self.x - 6, y + 4, form.format(value).replace("-", "−").replace("+0 ", "0 "), "end", "soft", 11)

    def curve(self, values, style, width=1.6):
        places = [self.at((i + 0.5) / len(values), value) for i, value in enumerate(values)]
        for (x1, y1), (x2, y2) in zip(places, places[1:]):
            self.canvas.line(x1, y1, x2, y2, style, width)


def mean_curve(curves):
    return [statistics.mean(values) for values in zip(*curves)]


def off_by(line, plain):
    """Per cent that the perplexity is above fp32's."""
    return [100 * math.expm1(mine - other) for mine, other in zip(line["curve"], plain["curve"])]


def draw(found, workers):
    models = [model for model in NAMES if any(line["model"] == model for line in found)]
    canvas = Canvas(LEFT + len(models) * (WIDTH + GAP) - 20, TOP + 2 * HEIGHT + 62)
    canvas.text(16, 26, f"Training with few bits, {workers} ranks", size=16, bold=True)
    canvas.text(16, 46, "above: loss with fp32; below: perplexity against fp32's on the same batches, mean of the seeds",
                style="soft")
    for i, (case, style) in enumerate(CASES.items()):
        canvas.line(16 + 190 * i, 62, 40 + 190 * i, 62, style, 3)
        canvas.text(46 + 190 * i, 66, {"hops 5": "rounded at every hop, 5 bits"}.get(case, case))
    for i, model in enumerate(models):
        x = LEFT + i * (WIDTH + GAP)
        plain = {line["seed"]: line for line in found if line["model"] == model and line["case"] == "fp32"}
        loss = mean_curve([line["curve"] for line in plain.values()])
        above = Panel(canvas, x, TOP + 10, 0, max(loss))
        canvas.text(x, TOP, NAMES[model], bold=True)
        above.ticks([round(max(loss) * part, 1) for part in (0, 0.5, 1)], "{:.1f}")
        above.curve(loss, "axis")
        below = Panel(canvas, x, TOP + HEIGHT + 30, -PER_CENT, PER_CENT)
        below.ticks((-3, -2, -1, 0, 1, 2, 3), "{:+d} %")
        for case, style in CASES.items():
            off = [off_by(line, plain[line["seed"]]) for line in found
                   if (line["model"], line["case"], line["workers"]) == (model, case, workers) and line["seed"] in plain]
            if off:
                below.curve(mean_curve(off), style)
        end = TOP + 2 * HEIGHT + 48
        canvas.text(x, end, "0", "middle", "soft", 11)
        canvas.text(x + WIDTH, end, f"{MODELS[model].steps:,} steps", "end", "soft", 11)
    return str(canvas)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=pathlib.Path, default=HERE / "simulated.jsonl")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--chart", type=pathlib.Path, required=True, metavar="FILE.svg")
    arguments = parser.parse_args()
    arguments.chart.write_text(draw(lines(arguments.results), arguments.workers))


if __name__ == "__main__":
    main()
