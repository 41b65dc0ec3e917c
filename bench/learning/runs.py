"""What the grids beside this file have in common: runs by `ringwood run` whose results are lines of a file, so that a grid
can be stopped at any time and continued."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = str(ROOT / "build/release/bin/ringwood")
LONGEST_SECONDS = 3600  # of one run


def lines(results):
    return [json.loads(line) for line in results.read_text().splitlines() if line] if results.exists() else []


def report_of(what, ringwood, options, trainer):
    """What the trainer wrote to its --report, or None after an error that was printed. `options`: of `ringwood run`."""
    with tempfile.TemporaryDirectory() as directory:
        report = pathlib.Path(directory) / "report"
        command = [ringwood, "run", "--failure-timeout", 600, *options, "--", sys.executable, *trainer, "--report", report]
        run = subprocess.run([str(word) for word in command], env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
                             capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
        if run.returncode or not report.exists():
            print(f"{what}: exit code {run.returncode}\n{run.stdout[-2000:]}{run.stderr[-2000:]}", file=sys.stderr)
            return None
        return json.loads(report.read_text())


def complete(missing, execute, results):
    """Appends a line for each of `missing`, with what `execute` says of it; how many of them failed."""
    failed = 0
    for what in missing:
        found = execute(what)
        if found is None:
            failed += 1
            continue
        with open(results, "a", encoding="utf-8") as file:
            file.write(json.dumps({**what, **found}) + "\n")
        print(f"{what}: {found}", flush=True)
    return failed
