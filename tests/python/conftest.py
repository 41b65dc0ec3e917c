"""The tests drive the built program and library the way users do; RINGWOOD_BUILD names the build."""

import os
import pathlib
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("RINGWOOD_BUILD", ROOT / "build" / "release")).resolve()
PROGRAM = BUILD / "bin" / "ringwood"
LIBRARY = BUILD / "lib" / "libringwood.so"
os.environ.setdefault("RINGWOOD_LIBRARY", str(LIBRARY))  # for what a test itself loads
JOBS = pathlib.Path(__file__).resolve().parent / "jobs"
EXAMPLE = ROOT / "examples" / "fashion_mnist.py"
sys.path.append(str(ROOT / "tests"))

from startup.warm import PYTHONPATH, python  # noqa: E402


@dataclass
class Ended:
    """A process that came to its end: exit code and everything it printed."""
    code: int
    output: str


def environment(**changes):
    """This one's without another job's variables, with the package and the library of this build."""
    mine = {name: value for name, value in os.environ.items()
            if not name.startswith(("RINGWOOD_", "SLURM_", "OMPI_"))
            and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    mine.update({"PYTHONPATH": PYTHONPATH, "RINGWOOD_LIBRARY": str(LIBRARY), "OMP_NUM_THREADS": "1",
                 **changes})
    return mine


def run(command, timeout=600, **changes):
    """Runs to the end, in a group of its own that is killed whole at the limit, of which a busy machine needs less."""
    process = subprocess.Popen([str(word) for word in command], cwd=ROOT, env=environment(**changes),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"{command} was still running after {timeout} s:\n{output}")
    return Ended(process.returncode, output)


def run_job(script, *arguments, ranks=2, flags=(), timeout=600, code=0, **changes):
    """`ringwood run` of a script with this interpreter; fails unless it ends with `code`."""
    script = script if os.path.isabs(script) else JOBS / script
    ended = run([PROGRAM, "run", "-np", ranks, *flags, "--", *python(script), *arguments],
                timeout, **changes)
    assert ended.code == code, f"exit code {ended.code}, expected {code}:\n{ended.output}"
    return ended


@pytest.fixture(scope="session", autouse=True)
def built():
    for path in (PROGRAM, LIBRARY):
        if not path.exists():
            pytest.exit(f"{path} is missing; build it with ./dev build (RINGWOOD_BUILD names another "
                        "build directory)", returncode=1)


@pytest.fixture
def small_disk(tmp_path, request):
    """A folder on a disk of so many MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={request.param}m", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)
