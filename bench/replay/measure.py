#!/usr/bin/env python3
"""Replays a model's profile on test hosts, Ringwood and PyTorch DDP in turn, and appends each run's result.

    bench/netns.sh up 4 1gbit                       # makes the hosts (root)
    bench/replay/measure.py --trace resnet50 --hosts 4 --variants ddp,fp32,bf16,hybrid --rounds 5

One line of JSON a run in --output, so that a grid can be measured in many calls. Variants of a round run one
after the other: A B C A B C. A call that passes --limit seconds starts no further run. Few bits against DDP,
in some minutes:

    bench/replay/measure.py --trace resnet50,vgg16,bert --hosts 4 --variants ddp,int4,int8 --steps 2 --limit 420

Hosts that are far apart (a delay of 10 ms each way):

    build/release/bin/far_hosts --count 4 --rate 250 --delay 10 &
    bench/replay/measure.py --trace resnet50 --hosts 4 --rate 250mbit --delay 10
"""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from hosts import a_rank_each  # noqa: E402 (found beside this folder)

DENSE = ["--route", "dense"]
VARIANTS = {  # flags of `ringwood replay`
    "fp32": ["--planner", "hybrid", *DENSE],
    **{wire: ["--planner", "hybrid", *DENSE, "--wire", wire] for wire in ("bf16", "int8", "int4")},
    "hybrid": ["--planner", "hybrid", "--route", "auto", "--density", "0.001"],
    # as plans were made before they were for the measured network
    "hybrid-1gbit": ["--planner", "hybrid", "--route", "auto", "--density", "0.001", "--plan-for", "1gbit"],
    "fp32+log": ["--planner", "hybrid", *DENSE, "--update-log"],
    "hybrid+log": ["--planner", "hybrid", "--route", "auto", "--density", "0.001", "--update-log"],
    "hybrid+fsync": ["--planner", "hybrid", "--route", "auto", "--density", "0.001", "--update-log=fsync"],
    **{name: ["--planner", name, *DENSE] for name in ("wfbp", "fixed", "mgwfbp", "exact", "single")},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", required=True, help="names of files in data/espresso, without .csv")
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--variants", default="ddp,fp32,bf16,hybrid")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3, help="measured steps of a run")
    parser.add_argument("--warmup", type=int, default=4, help="steps before them, whose first two meet new memory")
    parser.add_argument("--forward-ms", type=float, default=30)
    parser.add_argument("--rate", default="1gbit", help="what the hosts were made with; for the record")
    parser.add_argument("--delay", type=float, default=0, help="the same, ms each way")
    parser.add_argument("--prefix", default="rwbench", help="of the hosts' names")
    parser.add_argument("--ringwood", default=str(ROOT / "build/release/bin/ringwood"))
    parser.add_argument("--output", type=pathlib.Path, help="results.jsonl, or with a delay far.jsonl, of this folder")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds")
    given = parser.parse_args()
    if given.output is None:  # report.py takes all of the first to be of one network
        given.output = HERE / ("far.jsonl" if given.delay else "results.jsonl")
    return given


def replay_flags(given, trace):
    return ["--trace", str(ROOT / f"data/espresso/{trace}.csv"), "--forward-ms", str(given.forward_ms),
            "--steps", str(given.steps), "--warmup", str(given.warmup)]


def json_line(text, what):
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        sys.exit(f"{what} printed no result:\n{text[-3000:]}")
    return json.loads(lines[-1])


def run_ddp(given, trace):
    ranks = []
    for rank in range(given.hosts):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(given.hosts), MASTER_ADDR="10.79.0.1",
                           MASTER_PORT="29517", GLOO_SOCKET_IFNAME="eth0", OMP_NUM_THREADS="1")
        command = ["ip", "netns", "exec", f"{given.prefix}{rank}", sys.executable, str(HERE / "ddp.py")]
        ranks.append(subprocess.Popen(command + replay_flags(given, trace), env=environment, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    texts = [rank.communicate()[0] for rank in ranks]
    return json_line(texts[0], "ddp")


def run_ringwood(given, trace, flags):
    command = [given.ringwood, "replay", "--workers", str(given.hosts), *a_rank_each(given.hosts, given.prefix),
               "--trusted-fabric", "--servers", str(given.hosts), "--json"]
    done = subprocess.run(command + replay_flags(given, trace) + flags, text=True, capture_output=True, check=False)
    return json_line(done.stdout + done.stderr, " ".join(flags))


def main():
    given = arguments()
    begin = time.monotonic()
    grid = itertools.product(range(given.rounds), given.trace.split(","), given.variants.split(","))
    for _, trace, variant in grid:
        if time.monotonic() - begin > given.limit:
            return
        ddp = variant == "ddp"
        result = run_ddp(given, trace) if ddp else run_ringwood(given, trace, VARIANTS[variant])
        row = {"variant": variant, "hosts": given.hosts, "rate": given.rate, "delay_ms": given.delay,
               "at": round(time.time()), **result}
        with given.output.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{trace} {given.hosts} hosts {variant}: {row['median_s']:.3f} s, predicted "
              f"{row.get('predicted_s', 0):.3f}, busy cores {row['busy_cores']:.2f}", flush=True)


if __name__ == "__main__":
    main()
