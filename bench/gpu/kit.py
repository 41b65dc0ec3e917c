"""Everything that needs a device, in one command; bench/gpu/run starts it, in a built tree or a packed kit.

    run [tests|sanitizers|bench|jobs|grid]… [--device cuda|cpu] [--out DIR] [--seconds N] [FLAGS of the grid]

Without a word: all parts, in this order; else those that are named, in theirs. One line a step, DIR/results.jsonl with
a line of JSON for the device, each step and each figure, DIR/kit.log with what was printed (of a step that still runs:
DIR/step.log); then a table, and exit code 1 if a step failed. A step whose needs this host has not is skipped with
the reason. --seconds bounds the whole: of what is left each part has a share, steps that find no time left are skipped,
and one that is cut short has not failed.
SIGTERM and SIGINT end the running step, and the table is printed. --device cpu tries the same steps without a device,
as far as they go.
"""

import argparse
import json
import os
import pathlib
import signal
import sys
import tempfile
import time

import steps
from host import Host
from outcome import figures, outcome
from processes import run
from steps import PARTS

LAST_LINES = 25  # that are shown of a step that failed
MOST_LOG = 300_000  # characters of a step that are kept
SHARES = {"tests": 3, "sanitizers": 3, "bench": 3, "jobs": 3, "grid": 12}  # of the time


class Kit:
    """Runs steps one after the other and keeps what came of them."""

    def __init__(self, out, seconds, clock=time.monotonic):
        self.results, self._out, self._clock = [], pathlib.Path(out), clock
        self._until = self._part_until = clock() + seconds if seconds else float("inf")
        self._out.mkdir(parents=True, exist_ok=True)

    def begin(self, part, later=()):
        """What this part leaves of its share, `later` parts have."""
        now = self._clock()
        share = SHARES[part] / sum(SHARES[each] for each in (part, *later))
        self._part_until = now + max(0, self._until - now) * share

    def run(self, step):
        begin, found, output = self._clock(), {}, ""
        left = self._part_until - begin
        if step.missing or left <= 0:
            status, reason = "skipped", step.missing or "no time left"
        else:
            whole, step.seconds = step.seconds, min(step.seconds, left)
            code, output = self._execute(step)
            status, reason, found = outcome(step, code, output)
            if code is None and step.seconds < whole and not found.get("failures"):
                status, reason = "skipped", reason.replace("stopped after", "no time left after")
        seconds = round(self._clock() - begin, 1)
        self._tell(step, {"part": step.part, "step": step.name, "status": status, "seconds": seconds,
                          **({"reason": reason} if reason else {}), **found}, output)

    def _execute(self, step):
        """(exit code or None, output)."""
        path = self._out / "step.log"
        try:
            with open(path, "wb") as file:
                code = run(step.command, step.environment, step.seconds, file)
        except OSError as error:
            path.write_text(str(error), encoding="utf-8")
            code = 127
        finally:
            output = path.read_text(encoding="utf-8", errors="replace")
            kept = output if len(output) <= MOST_LOG else f"{output[:MOST_LOG // 2]}\n…\n{output[-MOST_LOG // 2:]}"
            with open(self._out / "kit.log", "a", encoding="utf-8") as log:
                log.write(f"==== {step.part}: {step.name}: {' '.join(map(str, step.command))}\n{kept}\n")
            path.unlink()
        return code, output

    def note(self, *lines):
        with open(self._out / "results.jsonl", "a", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def _tell(self, step, line, output):
        self.results.append(line)
        self.note(line, *({"part": step.part, "step": step.name, **figure} for figure in figures(output)))
        status = line["status"]
        print(f"{status:8}{step.part} {step.name}  {line['seconds']} s  {line.get('reason', '')}", flush=True)
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


class Stopped(Exception):
    """By a signal."""


def stop(number, _):
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise Stopped(signal.Signals(number).name)


def main(words=None):
    parser = argparse.ArgumentParser(prog="run", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; without one: all")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", default=os.environ.get("OUT", "."), help="folder of results (default: $OUT or .)")
    parser.add_argument("--seconds", type=float, default=0, help="for all of it; 0: as long as it takes")
    options, options.grid = parser.parse_known_args(words)
    unknown = set(options.parts) - set(PARTS) - {"all"}
    if unknown or (options.grid and "grid" not in options.parts):
        parser.error(f"{' '.join(sorted(unknown) or options.grid)}? {', '.join(PARTS)} or pack DIR")
    parts = PARTS if not options.parts or "all" in options.parts else list(dict.fromkeys(options.parts))
    host = Host(device=options.device)
    if options.device == "cuda" and host.no_device:
        print(f"skipped: {host.no_device}")
        return 0
    print(f"{host.device_name}; {host.python}", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    kit, stopped = Kit(options.out, options.seconds), ""
    kit.note({"device": host.device_name, "python": str(host.python)})
    try:
        with tempfile.TemporaryDirectory() as work:
            for number, part in enumerate(parts):
                kit.begin(part, parts[number + 1:])
                for step in getattr(steps, part)(host, options, work):
                    kit.run(step)
    except Stopped as signalled:
        stopped = f"stopped by {signalled}; "
    print(kit.table())
    print(f"results: {pathlib.Path(options.out).resolve()}/results.jsonl")
    print(stopped + ("failed: " + "; ".join(kit.failed) if kit.failed else "nothing failed"))
    return int(bool(kit.failed or stopped))


if __name__ == "__main__":
    sys.exit(main())
