"""Selection against torch.topk, interleaved in one process and on one core each.

    python bench/sparse/against_torch.py [--elements 16000000] [--pairs 7]

One line a density: the median of (residual update + exact selection, warm) as `ringwood bench select`
measures it, the median of e += g; torch.topk(|e|, k), and the ratio. RINGWOOD names the program."""

import argparse
import json
import os
import statistics
import subprocess
import time

import torch


def ours(elements, density):
    out = subprocess.run([os.environ.get("RINGWOOD", "build/release/bin/ringwood"), "bench", "select",
                          "--elements", str(elements), "--density", str(density), "--pairs", "5",
                          "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(out)["results"][0]


def theirs(residual, gradient, k):
    start = time.perf_counter()
    residual += gradient
    torch.topk(residual.abs(), k, sorted=False)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--elements", type=int, default=16_000_000)
    parser.add_argument("--pairs", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    gradient = torch.randn(arguments.elements) ** 3
    for density in (0.001, 0.01):
        k = round(density * arguments.elements)
        residual = torch.zeros(arguments.elements)
        a, b, ratios = [], [], []
        for _ in range(arguments.pairs):
            mine = ours(arguments.elements, density)
            a.append(mine["p50_s"])
            ratios.append(mine["ratio"])
            b.append(min(theirs(residual, gradient, k) for _ in range(2)))
        print(f"n {arguments.elements} k {k}: ringwood {statistics.median(a) * 1e3:.1f} ms "
              f"({statistics.median(ratios):.3f} x the plain update), torch.topk "
              f"{statistics.median(b) * 1e3:.1f} ms = {statistics.median(b) / statistics.median(a):.1f} x")


main()
