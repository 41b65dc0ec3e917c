"""Where the threads of a step stand when its time is up: a hang on a machine that is lent once must say where it was."""

import pathlib
import shutil
import subprocess
import time

TOOL = "eu-stack"  # of elfutils; the kit brings it
SECONDS = 20  # for all processes
SECONDS_OF_ONE = 5  # one that a driver holds cannot be attached to
MOST_FRAMES = 40


def find(here=pathlib.Path(__file__).resolve().parent):
    """(command, environment), or None where neither the kit nor the host has the tool."""
    packed = here / "bin" / TOOL
    if packed.exists():  # with the C library that it was linked with
        loader = next((here / "base").glob("ld-linux-*"))
        return [loader, "--library-path", f"{here / 'lib'}:{here / 'base'}", packed]
    tool = shutil.which(TOOL)
    return [tool] if tool else None


def of_kernel(pid):
    """What /proc tells of each thread without a debugger."""
    for task in sorted(pathlib.Path(f"/proc/{pid}/task").iterdir()):
        words = [(task / name).read_text().strip() for name in ("comm", "wchan")]
        yield f"thread {task.name} ({words[0]}) in {words[1] or '?'}"


def write(pids, output, tool=None):
    """The stacks of all threads of these processes, to a binary file; what cannot be read is left out with a word why."""
    command, until = tool or find(), time.monotonic() + SECONDS
    for pid in sorted(pids):
        left = min(until - time.monotonic(), SECONDS_OF_ONE)
        try:
            name = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
            output.write(f"---- stacks of process {pid}: {name}\n".encode())
            output.write("".join(f"{line}\n" for line in of_kernel(pid)).encode())
            output.flush()
            if command and left > 0:
                subprocess.run([*map(str, command), "-n", str(MOST_FRAMES), "-p", str(pid)], stdin=subprocess.DEVNULL,
                               stdout=output, stderr=subprocess.STDOUT, timeout=left, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:  # it has ended, or cannot be stopped
            output.write(f"{error}\n".encode())
    output.flush()
