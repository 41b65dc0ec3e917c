"""How often the host waits for the device in a training step, without exchange, in place and staged, and how long the
device is busy and idle in it; a line of JSON each.

    ringwood run -np 1 -- python bench/gpu/waits.py [--model gpt]

PyTorch's profiler counts the calls of CUDA's runtime that wait, of each thread, over some steps after the first ones.
Forward, the optimizer and the commit are on one thread, backward is on another; threads of the library launch few
kernels or none. In place a commit may add the wait for the digest."""

import collections
import json
import os
import sys
import tempfile

import torch
from in_place import read_arguments, trainer

import ringwood.torch as rw

WARM_UPS, STEPS = 3, 5
WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy")


def of_threads(events, steps):
    """Of each thread its launches and waits a step, most launches first; `events`: (thread, name) of a profile."""
    threads = collections.defaultdict(collections.Counter)
    for thread, name in events:
        threads[thread][name] += 1
    found = [{"launches": sum(count for name, count in names.items() if "Launch" in name and "Kernel" in name) / steps,
              "waits": {name: names[name] / steps for name in WAITS if name in names}} for names in threads.values()]
    return sorted(found, key=lambda thread: -thread["launches"])


def runtime_calls(trace):
    """(thread, name) of each. The trace has the thread that made the call; profiler.events() gives calls outside of
    PyTorch's operations, which the library's are, to the thread that ended the profile."""
    return [(event["tid"], event["name"]) for event in trace["traceEvents"] if event.get("cat") == "cuda_runtime"]


def device_time(trace, steps):
    """Of a step: seconds in which the device computes or copies, and in which it pauses; how long the longest pauses of
    all steps were, and what ran before and after the longest."""
    spans = sorted((event["ts"], event["ts"] + event["dur"], event["name"]) for event in trace["traceEvents"]
                   if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"))
    busy, end, last, pauses = 0.0, None, "", []
    for begin, until, name in spans:
        if end is not None and begin > end:
            pauses.append(((begin - end) * 1e-6, last, name))
        if end is None or until > end:
            busy += until - (begin if end is None else max(begin, end))
            end, last = until, name
    pauses.sort(reverse=True)
    return {"busy_s": busy * 1e-6 / steps, "idle_s": sum(pause for pause, *_ in pauses) / steps,
            "pauses_s": [round(pause, 6) for pause, *_ in pauses[:2 * steps]],
            "longest": [name[:60] for name in pauses[0][1:]] if pauses else []}


def profile(kind, arguments):
    step = trainer(kind, arguments)
    for _ in range(WARM_UPS):
        step()
    cuda = arguments.device == "cuda"
    activities = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * cuda
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(STEPS):
            step()
    if kind != "none":
        rw.shutdown()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            return json.load(file)


def main():
    arguments = read_arguments(__doc__, "gpt")
    if arguments is None:
        return
    for kind in arguments.kinds:
        trace = profile(kind, arguments)
        print(json.dumps({"model": arguments.model, "route": arguments.route, "kind": kind,
                          "device": arguments.device, "small": arguments.small,
                          "threads": of_threads(runtime_calls(trace), STEPS), "device_time": device_time(trace, STEPS)}),
              flush=True)


if __name__ == "__main__":
    sys.exit(main())
