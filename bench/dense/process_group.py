"""Small all-reduces through torch.distributed: the backend "ringwood" beside "gloo", in turn in one process a host.

    bench/dense/process_group.py --workers 4 --bytes 4K,16K,64K,256K,1M [--rate 1gbit]

Makes network namespaces (bench/netns.sh, needs root) and starts one process in each, with RANK, WORLD_SIZE,
MASTER_ADDR and MASTER_PORT and no launcher. A turn is a number of all-reduces of one size over one backend, each
after the one before has ended; the backends alternate. Prints, for each size, a line of a Markdown table: medians
over all calls, and the ratio of the medians of each pair of turns, its median and range.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
from hosts import shaped_hosts  # noqa: E402

SUFFIXES = {"K": 1 << 10, "M": 1 << 20}


def size_of(text):
    return int(text[:-1]) * SUFFIXES[text[-1]] if text[-1] in SUFFIXES else int(text)


def rank_main(options):
    sys.path.insert(0, os.path.join(ROOT, "python"))
    import torch
    import torch.distributed as dist

    import ringwood.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("ringwood")
    groups = {"ringwood": None, "gloo": dist.new_group(backend="gloo")}
    report = []
    for size in (size_of(text) for text in options.bytes.split(",")):
        tensor = torch.ones(size // 4)
        turns = {name: [] for name in groups}
        for turn in range(options.turns + 1):  # the first one opens connections
            for name, group in groups.items():
                dist.barrier()
                seconds = []
                for _ in range(options.calls):
                    begin = time.perf_counter()
                    dist.all_reduce(tensor, group=group)
                    seconds.append(time.perf_counter() - begin)
                    tensor.fill_(1)
                if turn:
                    turns[name].append(seconds)
        report.append({"bytes": size, "turns": turns})
    if dist.get_rank() == 0:
        print(json.dumps(report), flush=True)
    dist.destroy_process_group()


def run_hosts(options):
    processes = []
    for rank in range(options.workers):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(options.workers), MASTER_ADDR="10.79.0.1",
                           MASTER_PORT="29531", GLOO_SOCKET_IFNAME="eth0", RINGWOOD_NETWORK_INTERFACE="eth0",
                           RINGWOOD_TRUSTED_FABRIC="1", RINGWOOD_HOST=f"h{rank}", OMP_NUM_THREADS="1",
                           RINGWOOD_LOG_LEVEL="warning")
        command = ["ip", "netns", "exec", f"{options.prefix}{rank}", sys.executable, os.path.abspath(__file__),
                   "--as-rank", *sys.argv[1:]]
        processes.append(subprocess.Popen(command, env=environment, start_new_session=True,
                                          stdout=subprocess.PIPE if rank == 0 else None, text=True))
    output = processes[0].communicate(timeout=options.timeout)[0]
    if any([process.wait(timeout=60) for process in processes]):
        raise SystemExit("a rank failed; its error message stands above")
    return json.loads(output.splitlines()[-1])


def line(row):
    cells = [str(row["bytes"])]
    for name in ("ringwood", "gloo"):
        calls = sorted(second for turn in row["turns"][name] for second in turn)
        cells += [f"{statistics.median(calls) * 1e3:.3f}", f"{calls[int(len(calls) * 0.99)] * 1e3:.3f}"]
    ratios = sorted(statistics.median(theirs) / statistics.median(ours)
                    for ours, theirs in zip(row["turns"]["ringwood"], row["turns"]["gloo"]))
    cells += [f"{statistics.median(ratios):.1f}", f"{ratios[0]:.1f}–{ratios[-1]:.1f}"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--bytes", default="4K,16K,64K,256K,1M")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--calls", type=int, default=20, help="all-reduces of a turn")
    parser.add_argument("--prefix", default="rwpg", help="of the namespaces' names")
    parser.add_argument("--raw", help="write all times to this file")
    parser.add_argument("--timeout", type=float, default=230)
    parser.add_argument("--as-rank", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_rank:
        return rank_main(options)
    with shaped_hosts(options.workers, options.rate, options.prefix):
        report = run_hosts(options)
    if options.raw:
        with open(options.raw, "w", encoding="ascii") as raw:
            json.dump(report, raw)
    print("| bytes | ringwood, ms | p99 | gloo, ms | p99 | gloo / ringwood | range |\n|---:|---:|---:|---:|---:|---:|---:|")
    for row in report:
        print(line(row), flush=True)


if __name__ == "__main__":
    main()
