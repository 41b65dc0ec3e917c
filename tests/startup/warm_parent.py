"""Imports PyTorch once and forks for every script that warm_python.py asks for; ends with its standard input.

A fork starts as `python SCRIPT` does: its own session, __main__, arguments, environment, folder and files, and its
own end, with atexit and all. It is killed when the one who asked is gone: the kernel signals that a pipe has ended.
"""

import atexit
import contextlib
import fcntl
import gc
import marshal
import os
import pathlib
import select
import signal
import socket
import struct
import sys
import threading
import types


class Parent:
    def __init__(self, listener):
        self._listener = listener
        self._asking = {}  # a fork's pidfd: (its number, the connection that is told of its end)
        self._poll = select.poll()
        for descriptor in (0, listener.fileno()):
            self._poll.register(descriptor, select.POLLIN)

    def serve(self):
        """Returns in a fork with what it is to run; in the parent, None, when nobody will ask again."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == 0:
                    return None
                if descriptor != self._listener.fileno():
                    self._tell_of_the_end(descriptor)
                elif request := self._fork():
                    return request

    def _fork(self):
        connection, _ = self._listener.accept()
        files = []
        try:
            connection.settimeout(10)
            size, files, _, _ = socket.recv_fds(connection, 4, 4)
            with connection.makefile("rb") as asked:  # recv() may bring a part
                request = marshal.loads(asked.read(*struct.unpack("!I", size)))
        except (OSError, EOFError, ValueError, struct.error):  # it was killed while it asked
            for file in files:
                os.close(file)
            connection.close()
            return None
        child = os.fork()
        if child == 0:
            self._become(connection, files)
            return request
        for file in files:
            os.close(file)
        ended = os.pidfd_open(child)
        self._asking[ended] = child, connection
        self._poll.register(ended, select.POLLIN)
        self._say(connection, child)
        return None

    def _become(self, connection, files):
        for ended, (_, other) in self._asking.items():
            os.close(ended)
            other.close()
        self._listener.close()
        connection.close()
        os.setsid()
        *files, alive = files
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        fcntl.fcntl(alive, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(alive, F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(alive, fcntl.F_SETFL, os.O_ASYNC)
        if select.select([alive], [], [], 0)[0]:  # gone before it could be signalled
            os._exit(1)

    def _tell_of_the_end(self, ended):
        child, connection = self._asking.pop(ended)
        self._poll.unregister(ended)
        os.close(ended)
        self._say(connection, os.waitpid(child, 0)[1])
        connection.close()

    @staticmethod
    def _say(connection, number):
        try:
            connection.sendall(struct.pack("!i", number))
        except OSError:  # killed: and so is its fork
            pass


F_SETSIG = 10  # <fcntl.h>, which Python does not name


def run(arguments, environment, folder):
    """What `python SCRIPT ARGUMENTS` does from its first line on: its exit code."""
    os.environ.clear()
    os.environ.update(environment)
    del os.environ["RINGWOOD_WARM"]
    os.chdir(folder)
    script = arguments[0]
    sys.argv[:] = arguments
    sys.path[0] = str(pathlib.Path(script).resolve().parent)
    if "numpy.random" in sys.modules:
        sys.modules["numpy"].random.seed()
    main = types.ModuleType("__main__")
    main.__file__, main.__builtins__ = script, __builtins__
    sys.modules["__main__"] = main
    try:
        exec(compile(pathlib.Path(script).read_bytes(), script, "exec"), main.__dict__)
        return 0
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException as error:
        error = error.with_traceback(error.__traceback__.tb_next)  # which begins in the script
        sys.excepthook(type(error), error, error.__traceback__)
        return 1


def end(code):
    """The end of a Python, but for taking PyTorch apart, which would copy all that the fork shares with its parent."""
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.modules["__main__"].__dict__.clear()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def main():
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0" + sys.argv[1])
    listener.listen(64)
    print("listening", flush=True)
    import torch._dynamo  # which an optimizer's first step imports
    import torch.distributed
    import torch.utils.data
    del torch
    assert len(os.listdir("/proc/self/task")) == 1, "threads do not come with a fork: OMP_NUM_THREADS=1"
    gc.freeze()  # a fork's collector leaves alone what it shares
    request = Parent(listener).serve()
    if request is not None:
        end(run(*request))


main()
