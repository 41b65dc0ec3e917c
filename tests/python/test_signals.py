"""Loading the library leaves the host program's signal handlers as they are."""

import subprocess
import sys

from conftest import LIBRARY

CODE = """
import ctypes, signal, sys

def masks():
    with open("/proc/self/status") as status:
        return [line for line in status if line.startswith(("SigIgn", "SigCgt"))]

signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
signal.signal(signal.SIGBUS, lambda *_: None)
before = masks()
ctypes.CDLL(sys.argv[1])
assert masks() == before, (before, masks())
print("same")
"""


def test_handlers_stay():
    ended = subprocess.run([sys.executable, "-c", CODE, LIBRARY], capture_output=True, text=True, timeout=120)
    assert ended.stdout.strip() == "same", ended.stderr
