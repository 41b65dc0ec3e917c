"""How the process groups of a process come to their session: that of `ringwood run`, where RINGWOOD_COORDINATOR names
its server; otherwise (torchrun, mpirun, variables set by hand) rank 0 starts a server and says where through torch's
store.

The server is a process of its own behind a shell that reads from rank 0: it ends a moment after rank 0 did, however
that ended, so that it can still tell the others who failed.
"""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile

from . import job
from .errors import InvalidError, RefusedError, UnavailableError
from .library import load

_LINGER_SECONDS = 3  # of the server, after rank 0 is gone
_KEEPER = (f'"$@" & server=$!; exec >&-; read -r line; [ "$line" = end ] || sleep {_LINGER_SECONDS}; '
           "kill $server 2>/dev/null; wait $server")


class Joined:
    """The session that all process groups of the process share."""

    def __init__(self, session, store, server, ours):
        self.session = session
        self._store, self._server, self._ours = store, server, ours
        self.groups = 0
        self._base = _numbered(session)

    def key(self, name):
        """A key of a store: torch's outlives the process groups, with the keys of those before."""
        return f"ringwood/{_joins[0]}/{name}"

    def number(self):
        """A number for a communicator that no other one of the session has. One member asks and tells the others."""
        return self._base + self._store.add(self.key("communicators"), 1)

    def enter(self):
        self.groups += 1
        return self

    def leave(self):
        self.groups -= 1
        if self.groups > 0:
            return
        _present.clear()
        if self._ours:
            job.stop()
        if self._server is not None:
            self._server.close()


_present = []  # the Joined of this process, while it has groups
_joins = [0]   # how often it has joined, as often as the others
_NUMBERS = 1 << 16  # of communicators, for each time that a session is joined


def _numbered(session):
    """Where numbers begin. Groups are destroyed and made again on all ranks alike."""
    session.joined_groups = getattr(session, "joined_groups", -1) + 1
    return session.joined_groups * _NUMBERS


def join(store, rank, world, timeout, ranks):
    """For one more group. The first one is of all ranks, and opens the session or takes the one that stands."""
    if _present:
        return _present[0].enter()
    if ranks and ranks != list(range(world)):
        raise RefusedError('the backend ringwood has no session yet: init_process_group("ringwood") comes before '
                           'new_group(backend="ringwood")')
    _joins[0] += 1
    ours, server, variables = not job.running(), None, {}
    if ours and "RINGWOOD_COORDINATOR" not in os.environ:
        server, variables = _meet(store, rank)
        variables |= {"RANK": str(rank), "WORLD_SIZE": str(world)}
    with _set(variables):
        if ours:
            job.start({"join_timeout": timeout.total_seconds()} if variables else {})
        session = job.current().session
    if (session.rank, session.world) != (rank, world):
        raise InvalidError(f"this process is rank {rank} of {world} for torch.distributed and rank {session.rank} of "
                           f"{session.world} of the job: RANK and WORLD_SIZE are those of `ringwood run`")
    _present.append(Joined(session, store, server, ours))
    return _present[0].enter()


@contextlib.contextmanager
def _set(variables):
    """In the environment, while the session is opened."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _meet(store, rank):
    """(the server, if this rank starts it, the variables that `ringwood run` would have set)."""
    server, key = None, f"ringwood/{_joins[0]}/server"
    if rank == 0:
        try:
            server = _Server()
            offer = {"coordinator": server.address, "token": server.token, "host": _machine()}
        except (OSError, InvalidError, UnavailableError) as error:
            store.set(key, json.dumps({"error": str(error)}))
            raise
        store.set(key, json.dumps(offer))
    offer = json.loads(store.get(key))
    if "error" in offer:
        raise UnavailableError(f"rank 0 could not start a server: {offer['error']}")
    if not os.environ.get("RINGWOOD_NETWORK_INTERFACE") and offer["host"] != _machine():
        raise InvalidError(f"rank {rank} is not on the host of rank 0, and without RINGWOOD_NETWORK_INTERFACE the "
                           "backend ringwood uses loopback: set it on all ranks, and RINGWOOD_TRUSTED_FABRIC=1 if the "
                           "network is private")
    return server, {"RINGWOOD_COORDINATOR": offer["coordinator"], "RINGWOOD_TOKEN": offer["token"],
                    "RINGWOOD_HOST": os.environ.get("RINGWOOD_HOST") or socket.gethostname()}


def _machine():
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()


def _program():
    """The program `ringwood` that belongs to the library."""
    beside = os.path.join(os.path.dirname(os.path.dirname(load().path)), "bin", "ringwood")
    found = beside if os.path.exists(beside) else shutil.which("ringwood")
    if not found:
        raise InvalidError(f"the program ringwood is neither {beside} nor on the PATH: rank 0 starts a server with it, "
                           "unless RINGWOOD_COORDINATOR names one")
    return found


class _Server:
    """`ringwood server`, which serves until `close` or the end of this process."""

    def __init__(self):
        self.token = secrets.token_hex(16)
        card = os.environ.get("RINGWOOD_NETWORK_INTERFACE")
        flags = ["--insecure", "--listen", "127.0.0.1:0"]
        if card:
            flags = ["--trusted-fabric"] if os.environ.get("RINGWOOD_TRUSTED_FABRIC") == "1" else []
            flags += ["--network-interface", card, "--listen", ":0"]
        for name, flag in (("RINGWOOD_TRANSPORT", "--transport"), ("RINGWOOD_PORT_RANGE", "--port-range")):
            if os.environ.get(name):
                flags += [flag, os.environ[name]]
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(self.token)
            file.flush()
            command = [_program(), "server", "--servers", "0", "--no-reducer", "--token-file", file.name,
                       "--log-level", "warning", *flags]
            self._process = subprocess.Popen(["sh", "-c", _KEEPER, "sh", *command], stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE, text=True, start_new_session=True)
            line = self._process.stdout.readline().strip()
        if " listening on " not in line:
            self.close()
            raise UnavailableError(f"`{' '.join(command)}` did not start; its error message stands above")
        self.address = line.rsplit(" ", 1)[1]

    def close(self):
        self._process.stdin.write("end\n")
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
