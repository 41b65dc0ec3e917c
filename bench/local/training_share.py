#!/usr/bin/env python3
"""Share of the time that is training with local steps, measured against what `ringwood plan --rounds` says.

    bench/local/training_share.py [--rate 100mbit] [--hosts 4] [--trace resnet50] [--rounds 3]

Makes network namespaces with shaped interfaces (bench/netns.sh, needs root). On each a rank has parameters of the
profile's sizes; a step takes the profile's time, in which it sleeps, as a processor that waits for its GPU; in every
25th it has gradients for SGD. The time of a step over whole rounds,
without and with exchange: utilisation is their quotient. Prints a line of a Markdown table for each way to travel.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from hosts import a_rank_each, shaped_hosts  # noqa: E402

FORWARD = 0.032  # seconds, of ResNet-50's profile; the file has the backward's
WARM_UP = 2      # rounds: codes learn their scales in the first
WAYS = (  # (codec, density, every, fragments, delay)
    ("int4", 1, 100, 1, 0),
    ("int4", 1, 100, 4, 20),
    ("rice/int2", 64 / 4096, 184, 1, 0),  # as `ringwood plan --rounds` has them for 95 %
    ("rice/int2", 16 / 4096, 77, 1, 0),
)


def predicted(options, way):
    codec, density, every, fragments, delay = way
    command = [options.program, "plan", "--rounds", "--json", "--trace", ROOT / f"data/espresso/{options.trace}.csv",
               "--network", f"alpha=1e-4,beta={8 / (0.956 * options.bits)}", "--workers", options.hosts, "--forward", FORWARD,
               "--most-every", every, "--utilisation", 0.9999, "--fragments", fragments, "--delay", delay]
    answer = json.loads(subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout)
    for choice in answer["choices"]:
        if choice["codec"] == codec and abs(choice["density"] - density) < 1e-6 and choice["every"] == every:
            return answer["step_seconds"], choice["utilisation"], choice["fewer_bytes"]
    sys.exit(f"no prediction of {way} in {answer}")


def measure(options, way, step_seconds, directory):
    """Utilisation, the slowest rank's."""
    report = directory / "report"
    command = [options.program, "run", *a_rank_each(options.hosts, options.prefix), "--trusted-fabric", "-np",
               options.hosts, "--", sys.executable, __file__, "--rank", json.dumps(way),
               "--trace", options.trace, "--step", step_seconds, "--rounds", options.rounds, "--report", report]
    subprocess.run([str(word) for word in command], check=True, stdout=sys.stderr, timeout=1200,
                   env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1"})
    return json.loads(report.read_text())


def train(options):
    """A rank."""
    import torch

    import ringwood.torch as rw

    codec, density, every, fragments, delay = json.loads(options.rank)
    torch.set_num_threads(1)
    rw.init()
    rows = (ROOT / f"data/espresso/{options.trace}.csv").read_text().splitlines()
    sizes = [int(row.split(",")[2]) for row in rows if row and row[0].isdigit()]
    model = torch.nn.ParameterList([torch.zeros(1, size) for size in sizes])
    draw = torch.Generator().manual_seed(rw.rank())
    gradients = [torch.randn(parameter.shape, generator=draw) for parameter in model]
    inner = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=True)
    sparse = {"density": density, "chunk": 4096} if density < 1 else {}
    optimizer = rw.LocalSteps(model, inner, every=every, outer=rw.OuterSGD(lr=0.7), codec=codec, fragments=fragments,
                              delay=delay, **sparse)

    def steps(count, stepper):
        begun = time.monotonic()
        for step in range(count):
            until = time.monotonic() + options.step
            for parameter, gradient in zip(model, gradients):
                parameter.grad = gradient if step % 25 == 24 else None
            stepper.step()
            time.sleep(max(0.0, until - time.monotonic()))
        return (time.monotonic() - begun) / count

    steps(WARM_UP * every, optimizer)
    alone = steps(every // 2, inner)
    with_exchange = torch.tensor([steps(every, optimizer) for _ in range(options.rounds)], dtype=torch.float64)
    shares = alone / with_exchange
    every_rank = [json.loads(text) for text in rw.gather_texts(json.dumps(shares.tolist()))]
    if rw.rank() == 0:
        pathlib.Path(options.report).write_text(json.dumps([min(each) for each in zip(*every_rank)]))
    rw.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--bits", type=float, default=1e8, help="of the rate, a second; for the prediction")
    parser.add_argument("--trace", default="resnet50", help="a file in data/espresso, without .csv")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", metavar="CODEC", help="the ways with this one")
    parser.add_argument("--prefix", default="rwlocal")
    parser.add_argument("--program", default=ROOT / "build/release/bin/ringwood")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    parser.add_argument("--step", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--report", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        return train(options)
    print("| codec | density | every | fragments | delay | predicted | measured (least, most) | fewer bytes |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    with shaped_hosts(options.hosts, options.rate, options.prefix), tempfile.TemporaryDirectory() as directory:
        for way in WAYS:
            if not way[0].startswith(options.only):
                continue
            step_seconds, share, fewer = predicted(options, way)
            found = measure(options, way, step_seconds, pathlib.Path(directory))
            codec, density, every, fragments, delay = way
            print(f"| {codec} | {density:.4g} | {every} | {fragments} | {delay} | {100 * share:.1f} % | "
                  f"{100 * statistics.median(found):.1f} % ({100 * min(found):.1f}, {100 * max(found):.1f}) | {fewer:.0f}x |",
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
