"""The servers of a job that has none: `ringwood server` as processes of their own, on loopback or on the network interface
of RINGWOOD_NETWORK_INTERFACE. A shell stands between that reads from us: a server ends a moment after this process
did, however that ended, so that it can still tell other ranks who failed.
"""

import contextlib
import os
import secrets
import select
import shutil
import signal
import subprocess
import tempfile

from ..errors import InvalidError, NotFoundError, UnavailableError
from ..library import find_program

_LINGER_SECONDS = 3  # of the server, after this process is gone
_PATIENCE_SECONDS = 30  # for a store that the server of the processes before holds still
_START_SECONDS = 30     # beside that, until it listens
_END_SECONDS = 10       # a server that hangs, as on a dead disk, is killed then
_ON = ("1", "true", "on", "yes")  # of what the library reads so (client/options/switch_text.h)
_KEEPER = (f'store=$1; shift; "$@" & server=$!; exec >&-; read -r line; [ "$line" = end ] || sleep {_LINGER_SECONDS}; '
           'kill $server 2>/dev/null; wait $server; [ -z "$store" ] || rm -rf "$store"')


class _Own:
    def __init__(self, flags, token, rank, temporary=""):
        self._temporary = temporary
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(token)
            file.flush()
            command = [_program(), "server", "--token-file", file.name, "--log-level", "warning", *flags]
            self._process = subprocess.Popen(["sh", "-c", _KEEPER, "sh", temporary, *command], stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, text=True, start_new_session=True)
            said, _, _ = select.select([self._process.stdout], [], [], _PATIENCE_SECONDS + _START_SECONDS)
            line = self._process.stdout.readline().strip() if said else ""
        if " listening on " not in line:
            self.close()
            raise UnavailableError(f"`{' '.join(command)}` did not start; its error message is in the output of rank "
                                   f"{rank}")
        self.address = line.rsplit(" ", 1)[1]

    def close(self, linger=False):
        """`linger`: for other ranks, which leave the job too; then nothing is waited for."""
        with contextlib.suppress(BrokenPipeError):  # it was killed
            if not linger:
                self._process.stdin.write("end\n")
            self._process.stdin.close()
        if not linger:
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            if self._temporary:  # where the shell was killed it is still there
                shutil.rmtree(self._temporary, ignore_errors=True)
        self._process.stdout.close()


class OwnServer(_Own):
    """The job's coordinator. `keeps`: it takes checkpoints, into the store that RINGWOOD_STORE names, or into a temporary
    folder that goes with it. `reducers`: so many OwnReducer are to join."""

    def __init__(self, keeps=False, reducers=0):
        self.token = secrets.token_hex(16)
        flags = ["--servers", str(reducers), "--no-reducer", *_network_flags()]
        named, temporary = os.environ.get("RINGWOOD_STORE", ""), ""
        if keeps and named:
            flags += ["--store", named, "--store-patience", str(_PATIENCE_SECONDS)]
        elif keeps:
            temporary = tempfile.mkdtemp(prefix="ringwood-")
            flags += ["--store", temporary]
        super().__init__(flags, self.token, 0, temporary)


class OwnReducer(_Own):
    """Reducer `index` of `reducers`, on the host of this rank, of the job whose server is at `address`."""

    def __init__(self, address, token, index, reducers, rank, host):
        super().__init__(["--coordinator", address, "--reducer-index", str(index), "--servers", str(reducers), "--host",
                          host, *_network_flags()], token, rank)


def _network_flags():
    card = os.environ.get("RINGWOOD_NETWORK_INTERFACE")
    flags = ["--insecure", "--listen", "127.0.0.1:0"]
    if card:
        trusted = os.environ.get("RINGWOOD_TRUSTED_FABRIC", "").lower() in _ON
        if not trusted and card != "lo" and not os.environ.get("RINGWOOD_IDENTITY"):
            raise InvalidError(f"RINGWOOD_NETWORK_INTERFACE={card}: what rank 0's own server says there would not be "
                               "encrypted. Set RINGWOOD_TRUSTED_FABRIC=1 if only your hosts reach this network; else "
                               "start the ranks with `ringwood run`, which gives them certificates")
        flags = ["--trusted-fabric" if trusted else "--insecure", "--network-interface", card, "--listen", ":0"]
    for name, flag in (("RINGWOOD_TRANSPORT", "--transport"), ("RINGWOOD_PORT_RANGE", "--port-range"),
                       ("RINGWOOD_JOIN_TIMEOUT", "--join-timeout")):
        if os.environ.get(name):
            flags += [flag, os.environ[name]]
    return flags


def _program():
    try:
        return find_program()
    except NotFoundError as failure:
        raise InvalidError(f"RINGWOOD_COORDINATOR names no server, and none can be started: {failure}") from failure
