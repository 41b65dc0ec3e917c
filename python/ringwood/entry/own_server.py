"""The servers that a rank starts: `ringwood server` as processes of their own, on loopback or on the network interface of
RINGWOOD_NETWORK_INTERFACE. A shell stands between that reads from us and ends the server when this process has ended,
however it did. A coordinator stays a moment longer, to tell the other ranks who failed, and until they have left.
Slurm and others ask all processes of a rank to end: the servers do so when the ranks have made their last checkpoint.
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

_LINGER_SECONDS = 3  # of a coordinator, after this process is gone
_PATIENCE_SECONDS = 30  # for a store that the server of the processes before holds still
_START_SECONDS = 30     # beside that, until it listens
_END_SECONDS = 10       # a server that hangs, as on a dead disk, is killed then
_ON = ("1", "true", "on", "yes")  # of what the library reads so (client/options/switch_text.h)
# A server that drains ends at once with the second signal, which must be another one.
_KEEPER = ('at_once=$1 store=$2; shift 2; trap "" TERM INT HUP; "$@" & server=$!; exec >&-; read -r line; '
           f'if [ "$line" = end ] || [ -n "$at_once" ]; then kill -HUP $server; else sleep {_LINGER_SECONDS}; fi '
           '2>/dev/null; kill $server 2>/dev/null; wait $server; [ -z "$store" ] || rm -rf "$store"')


class _Own:
    def __init__(self, flags, token, rank, at_once="", temporary_store=False):
        command = [self._program(), "server", "--log-level", "warning", "--drain", *flags]
        self._temporary = tempfile.mkdtemp(prefix="ringwood-") if temporary_store else ""
        if temporary_store:
            command += ["--store", self._temporary]
        self._process = subprocess.Popen(["sh", "-c", _KEEPER, "sh", at_once, self._temporary, *command],
                                         env=os.environ | {"RINGWOOD_TOKEN": token}, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True, start_new_session=True)
        said, _, _ = select.select([self._process.stdout], [], [], _PATIENCE_SECONDS + _START_SECONDS)
        line = self._process.stdout.readline().strip() if said else ""
        if " listening on " not in line:
            self.close()
            raise UnavailableError(f"`{' '.join(command)}` did not start; its error message is in the output of rank "
                                   f"{rank}")
        self.address = line.rsplit(" ", 1)[1]

    def _program(self):
        try:
            return find_program()
        except NotFoundError as failure:
            raise InvalidError(f"{self._lacks}, and none can be started: {failure}") from failure

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
    folder that goes with it."""

    _lacks = "RINGWOOD_COORDINATOR names no server"

    def __init__(self, keeps=False):
        self.token = secrets.token_hex(16)
        flags = ["--servers", "0", "--no-reducer", *_network_flags()]
        named = os.environ.get("RINGWOOD_STORE", "")
        if keeps and named:
            flags += ["--store", named, "--store-patience", str(_PATIENCE_SECONDS)]
        super().__init__(flags, self.token, 0, temporary_store=keeps and not named)


class OwnReducer(_Own):
    """The reducer that this rank brings for its host, of the job whose server is at `address`."""

    _lacks = "this host has no reducer"

    def __init__(self, address, token, rank, host):
        super().__init__(["--coordinator", address, "--of-rank", str(rank), "--host", host, *_network_flags()], token, rank,
                         at_once="1")

    def ended(self):
        return self._process.poll() is not None


def _network_flags():
    interface = os.environ.get("RINGWOOD_NETWORK_INTERFACE")
    flags = ["--insecure", "--listen", "127.0.0.1:0"]
    if interface:
        trusted = os.environ.get("RINGWOOD_TRUSTED_FABRIC", "").lower() in _ON
        if not trusted and interface != "lo" and not os.environ.get("RINGWOOD_IDENTITY"):
            raise InvalidError(f"RINGWOOD_NETWORK_INTERFACE={interface}: what rank 0's own server says there would not be "
                               "encrypted. Set RINGWOOD_TRUSTED_FABRIC=1 if only your hosts reach this network; else "
                               "start the ranks with `ringwood run`, which gives them certificates")
        flags = ["--trusted-fabric" if trusted else "--insecure", "--network-interface", interface, "--listen", ":0"]
    for name, flag in (("RINGWOOD_TRANSPORT", "--transport"), ("RINGWOOD_PORT_RANGE", "--port-range"),
                       ("RINGWOOD_JOIN_TIMEOUT", "--join-timeout")):
        if os.environ.get(name):
            flags += [flag, os.environ[name]]
    return flags
