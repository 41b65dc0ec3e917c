"""How a test starts a script that imports PyTorch."""

import functools
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PYTHONPATH = os.pathsep.join([str(HERE.parents[1] / "python"), str(HERE)])


@functools.cache
def parent():
    """The process whose forks have PyTorch from the start, for as long as this one lives; and where it listens."""
    name = f"ringwood-warm-{os.getpid()}"
    process = subprocess.Popen([sys.executable, HERE / "warm_parent.py", name], text=True,
                               env={**os.environ, "PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"},
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "listening\n"
    return process, name


def python(script):
    """The words that start a script. Where it imports PyTorch, which takes 2 s of a core, and 1 s more in an optimizer's
    first step, a process that has done so forks."""
    if "torch" not in pathlib.Path(script).read_text().lower():
        return [sys.executable, script]
    return ["env", f"RINGWOOD_WARM={parent()[1]}", sys.executable, "-IS", HERE / "warm_python.py", script]
