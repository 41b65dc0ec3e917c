"""A Python that has PyTorch already: `python -IS warm_python.py SCRIPT [ARGUMENTS]` does what `python SCRIPT` does.

The script runs in a fork of the process that listens at $RINGWOOD_WARM (warm_parent.py). This one lends it arguments,
environment, folder and files, hands its signals on, and ends as it ends; if this one is killed, so is the fork. What
it does not cover are namespaces, SIGSTOP from outside, and options of Python: then a Python of its own is right.
"""

import _socket
import array
import marshal
import os
import signal
import struct
import sys

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def received(connection, size):
    data = b""
    while len(data) < size:
        some = connection.recv(size - len(data))
        if not some:
            sys.exit("warm_python: the process that forks is gone")
        data += some
    return data


def main():
    early, child = [], None

    def forward(number, _frame):
        early.append(number) if child is None else os.kill(child, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect("\0" + os.environ["RINGWOOD_WARM"])
    request = marshal.dumps((sys.argv[1:], dict(os.environ), os.getcwd()))
    alive, _ = os.pipe()  # open at this end for as long as this process lives
    files = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2, alive]))]
    connection.sendmsg([struct.pack("!I", len(request))], files)
    connection.sendall(request)
    os.close(alive)
    child, = struct.unpack("!i", received(connection, 4))
    for number in early:
        os.kill(child, number)
    status, = struct.unpack("!i", received(connection, 4))
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))


main()
