"""Everything that needs a device, in one command; bench/gpu/run starts it, in a built tree or a packed kit.

    run [tests|sanitizers|bench|jobs|grid]… [--device cuda|cpu] [--out DIR] [--seconds N] [FLAGS of the grid]

Without a word: all parts, in this order. One line a step, DIR/results.jsonl with a line of JSON for each step and
figure, DIR/kit.log with all that was printed; then a table, and exit code 1 if a step failed. A step whose needs
this host has not is skipped with the reason. --seconds bounds the whole: steps that find no time left are skipped.
--device cpu tries the same steps without a device, as far as they go.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from dataclasses import dataclass, field

from host import Host

PARTS = ("tests", "sanitizers", "bench", "jobs", "grid")
DEVICE_TESTS = {"sparse_test": "Cuda*:DeviceGroup*", "dense_test": "Cuda*:WordDigest*:DeviceRing.*",
                "client_test": "DeviceBucket*:DeviceTensors*:DeviceWire*:*DeviceSparse*"}
SANITIZED = {"sparse_test": "DeviceGroup*", "client_test": "DeviceBucket*:DeviceTensors*RealDevice"}
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
FINDINGS = 99  # a sanitizer's exit code
# Several ranks on one device: NCCL takes them when each says that it is another host, over loopback.
ONE_DEVICE = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo",
              "NCCL_MNNVL_ENABLE": "0", "NCCL_CUMEM_ENABLE": "0"}
AS_HOST = ["sh", "-c", 'NCCL_HOSTID=host$RANK exec "$@"', "rank"]
LAST_LINES = 25  # that are shown of a step that failed


@dataclass
class Step:
    """One command: it succeeds or fails as a whole. `missing`: why it cannot run here."""
    part: str
    name: str
    command: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    missing: str = ""
    seconds: float = 600
    report: str = ""  # a file that it writes: GoogleTest's JSON, JUnit's XML, a trainer's report


# ---- what there is to run -------------------------------------------------------------------------

def tests(host, _, work):
    for name, chosen in DEVICE_TESTS.items():
        command, environment = host.program(name, f"--gtest_filter={chosen}")
        report = f"{work}/{name}.json"
        yield Step("tests", name, command, {**environment, "GTEST_OUTPUT": f"json:{report}"}, report=report)


def sanitizers(host, _, work):
    sanitizer = host.tool("compute-sanitizer")
    missing = host.no_device or ("" if sanitizer else "no compute-sanitizer")
    if not missing and host.native is None:
        missing = "packed programs need their own loader here"
    runs = [(name, (f"--gtest_filter={chosen}",)) for name, chosen in SANITIZED.items()]
    for tool in TOOLS:
        for name, arguments in [*runs, ("device_select", ("--steps", "3", "300001"))]:
            if missing:
                yield Step("sanitizers", f"{tool} {name}", missing=missing)
                continue
            command, environment = host.program(name, *arguments)
            yield Step("sanitizers", f"{tool} {name}",
                       [sanitizer, "--tool", tool, "--error-exitcode", str(FINDINGS), *command], environment)


def bench(host, _, work):
    kernels = host.here / "kernels.jsonl"
    yield Step("bench", "kernels", ["cat", kernels], missing="" if kernels.exists() else "not a packed kit")
    for name in ("device_select", "device_overlap"):
        command, environment = ([], {}) if host.no_device else host.program(name)
        yield Step("bench", name, command, environment, host.no_device)
    yield Step("bench", "eager", [host.python, host.here / "eager.py"], missing=host.no_device or host.no_torch_device)
    missing = host.no_torch_device or host.no_package
    small = ["--small", "--rounds", "1"] if host.device == "cpu" else []
    for model in ("flat", "gpt", "resnet50"):
        yield Step("bench", f"in_place {model}", [] if missing else
                   [host.built / "bin/ringwood", "run", "-np", "1", "--", host.python, host.here / "in_place.py",
                    "--device", host.device, "--model", model, *small], {} if missing else host.environment(), missing)
    profiler = host.tool("ncu")
    missing = host.no_device or ("" if profiler else "no Nsight Compute") or (
        "packed programs need their own loader here" if host.native is None else "")
    command, environment = ([], {}) if missing else host.program("device_select", "--steps", "20", "100000000")
    yield Step("bench", "profile", [profiler, "--clock-control", "none", "--launch-skip", "60", "--launch-count", "8",
                                    "--section", "SpeedOfLight", "--section", "Occupancy", *command],
               environment, missing)


def trainer(host, *flags):
    return [*AS_HOST, host.python, host.tree / "examples/fashion_mnist.py", "--data", host.data, *flags]


def jobs(host, options, work):
    missing = host.no_torch_device or host.no_package or host.no_data
    if missing:
        yield Step("jobs", "training", missing=missing)
        return
    environment = {**host.environment(), **ONE_DEVICE}
    report = f"{work}/test_device.xml"
    yield Step("jobs", "test_device", [host.python, "-m", "pytest", "-q", "-rs", "--tb=short", "-p", "no:cacheprovider",
                                       f"--junitxml={report}", host.tree / "tests/python/test_device.py"],
               environment, report=report)
    ringwood, limit = host.built / "bin/ringwood", "12000" if host.device == "cuda" else "2000"
    for route in ("dense", "sparse"):
        for ranks in (2, 4):
            report = f"{work}/{route}{ranks}.json"
            yield Step("jobs", f"{ranks} ranks, {route}",
                       [ringwood, "run", "-np", ranks, "--", *trainer(host, "--route", route, "--epochs", "1", "--limit",
                        limit, "--device", host.device, "--report", report)], environment, report=report)
    store = f"{work}/store"
    for name, device, run, epochs in (("checkpoint", host.device, (), "1"),
                                      ("resume on the host", "cpu", ("--resume",), "2")):
        report = f"{work}/{device}{epochs}.json"
        yield Step("jobs", name, [ringwood, "run", "-np", "2", "--store", store, *run, "--",
                                  *trainer(host, "--route", "sparse", "--epochs", epochs, "--limit", "2000", "--device",
                                           device, "--checkpoint-every", "5", "--report", report)],
                   environment, report=report)


def grid(host, options, work):
    missing = host.no_torch_device or host.no_package or host.no_data
    flags = options.grid
    if host.device == "cpu" and not flags:  # one short run of each kind: that it works
        flags = ["--only", "^dense$|^gtopk 0.01$", "--seeds", "1", "--workers", "2", "--passes", "1", "--limit", "2000"]
    yield Step("grid", "grid", [] if missing else
               [host.python, host.tree / "bench/convergence/grid.py", "--ringwood", host.built / "bin/ringwood",
                "--data", host.data, "--device", host.device, "--results", f"{options.out}/grid.jsonl", *flags],
               {} if missing else {**host.environment(), **ONE_DEVICE}, missing, seconds=24 * 3600)


# ---- what came of it ------------------------------------------------------------------------------

def read_report(path):
    """Counts of a test program's report, or what a trainer wrote; nothing where there is none."""
    if not path or not os.path.exists(path):
        return {}
    if path.endswith(".xml"):
        suite = xml.parse(path).getroot().find("testsuite")
        count = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
        return {"passed": count["tests"] - count["failures"] - count["errors"] - count["skipped"],
                "failed": count["failures"] + count["errors"], "skipped": count["skipped"]}
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    if "testsuites" not in found:
        kept = {"accuracy": "accuracy", "seconds": "training_seconds", "weights_digest": "weights_digest"}
        return {label: found[name] for name, label in kept.items() if name in found}
    cases = [case for suite in found["testsuites"] for case in suite["testsuite"] if case["status"] == "RUN"]
    failed = [f"{case['classname']}.{case['name']}" for case in cases if case.get("failures")]
    skipped = sum(case["result"] == "SKIPPED" for case in cases)
    return {"passed": len(cases) - len(failed) - skipped, "failed": len(failed), "skipped": skipped,
            **({"failures": failed} if failed else {})}


def figures(output):
    """The lines of JSON that a benchmark printed."""
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                yield json.loads(line)
            except ValueError:
                continue


def outcome(step, code, output):
    """Status and reason of a step that has ended; code None: it was stopped at its limit."""
    found = read_report(step.report)
    if code is None:
        return "failed", f"stopped after {step.seconds:.0f} s", found
    if code == FINDINGS and step.part == "sanitizers":
        return "failed", "the sanitizer found something", found
    if code != 0:
        return "failed", ", ".join(found.get("failures", [])) or f"exit code {code}", found
    if len(set(found.get("weights_digest", []))) > 1:
        return "failed", "the ranks end with different weights", found
    if found.get("passed") == 0:
        return "skipped", f"all {found['skipped']} tests were", found
    said = [line for line in output.splitlines() if line.startswith("skipped: ")]
    if said and "passed" not in found and not list(figures(output)):
        return "skipped", said[0][len("skipped: "):], found
    return "ok", f"{found['skipped']} of its tests skipped" if found.get("skipped") else "", found


def execute(step, log):
    """(exit code or None, output)."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([str(word) for word in step.command], env={**os.environ, **step.environment},
                                   stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True)
        try:
            code = process.wait(step.seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    log.write(f"==== {step.part}: {step.name}: {' '.join(map(str, step.command))}\n{text}\n")
    log.flush()
    return code, text


class Kit:
    """Runs steps one after the other and keeps what came of them."""

    def __init__(self, out, seconds, clock=time.monotonic):
        self.results, self._out, self._clock = [], pathlib.Path(out), clock
        self._until = clock() + seconds if seconds else float("inf")
        self._out.mkdir(parents=True, exist_ok=True)

    def run(self, step):
        begin, found, output = self._clock(), {}, ""
        left = self._until - begin
        if step.missing or left <= 0:
            status, reason = "skipped", step.missing or "no time left"
        else:
            whole, step.seconds = step.seconds, min(step.seconds, left)
            with open(self._out / "kit.log", "a", encoding="utf-8") as log:
                try:
                    code, output = execute(step, log)
                except OSError as error:
                    code, output = 127, str(error)
            status, reason, found = outcome(step, code, output)
            if code is None and step.seconds < whole:
                status, reason = "skipped", f"no time left after {step.seconds:.0f} s of it"
        line = {"part": step.part, "step": step.name, "status": status, "seconds": round(self._clock() - begin, 1),
                **({"reason": reason} if reason else {}), **found}
        self.results.append(line)
        with open(self._out / "results.jsonl", "a", encoding="utf-8") as file:
            for each in [line, *({"part": step.part, "step": step.name, **figure} for figure in figures(output))]:
                file.write(json.dumps(each) + "\n")
        print(f"{status:8}{step.part} {step.name}  {line['seconds']} s  {reason}", flush=True)
        if status == "failed":
            print("\n".join("    " + text for text in output.splitlines()[-LAST_LINES:]), flush=True)

    def table(self):
        rows = [["part", "steps", "ok", "failed", "skipped", "seconds"]]
        for part in PARTS:
            mine = [line for line in self.results if line["part"] == part]
            count = [sum(line["status"] == status for line in mine) for status in ("ok", "failed", "skipped")]
            if mine:
                rows.append([part, len(mine), *count, round(sum(line["seconds"] for line in mine))])
        widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
        return "\n".join("  ".join(f"{cell!s:<{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows)

    @property
    def failed(self):
        return [f"{line['part']} {line['step']}" for line in self.results if line["status"] == "failed"]


def main(words=None):
    parser = argparse.ArgumentParser(prog="run", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; without one: all")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", default=os.environ.get("OUT", "."), help="folder of results (default: $OUT, else here)")
    parser.add_argument("--seconds", type=float, default=0, help="for all of it; 0: as long as it takes")
    options, options.grid = parser.parse_known_args(words)
    unknown = set(options.parts) - set(PARTS) - {"all"}
    if unknown or (options.grid and "grid" not in options.parts):
        parser.error(f"{' '.join(sorted(unknown) or options.grid)}? {', '.join(PARTS)} or pack DIR")
    parts = [part for part in PARTS if not options.parts or part in options.parts or "all" in options.parts]
    host = Host(device=options.device)
    if options.device == "cuda" and host.no_device:
        print(f"skipped: {host.no_device}")
        return 0
    kit = Kit(options.out, options.seconds)
    with tempfile.TemporaryDirectory() as work:
        for part in parts:
            for step in globals()[part](host, options, work):
                kit.run(step)
    print(kit.table())
    print(f"results: {pathlib.Path(options.out).resolve()}/results.jsonl")
    print("failed: " + "; ".join(kit.failed) if kit.failed else "nothing failed")
    return int(bool(kit.failed))


if __name__ == "__main__":
    sys.exit(main())
