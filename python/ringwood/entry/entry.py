"""How a process comes to its job.

Where RINGWOOD_COORDINATOR names a server (`ringwood run`, `ringwood server -- COMMAND`, one by hand) nothing has to be
done, but for a reducer of this host. Otherwise rank 0 starts one, and says where through torch's store, which torchrun and other launchers of
torch.distributed name. A process that nothing started as a rank is the only one of its job.
"""

import contextlib
import datetime
import json
import os
import socket
import sys
import time

from ..errors import InvalidError, UnavailableError
from ..interface.aside import aside
from ..interface.lent import identity_of, lent
from ..library import load
from .host_reducer import for_served_job, for_torchruns_job
from .own_server import OwnServer

# By which a process knows that it is a rank: of Ringwood's options, and of launchers that are refused with a word on
# what is missing, where each of their processes would train alone. An empty variable counts as not set.
_OF_RANKS = ("RINGWOOD_COORDINATOR", "RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "SLURM_PROCID", "SLURM_NTASKS", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "HOROVOD_RANK",
             "JSM_NAMESPACE_RANK", "FLUX_TASK_RANK", "PALS_RANKID")
_OF_TORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_meetings = [0]  # how many this process has had, as many as the others
_torch = []      # torch's store, the rank and the world, once asked for: who serves it does so for the others until the end
_HEARING_SECONDS = 10  # for the others to hear that rank 0 has no server: the store may end with its process


class Entry:
    """`variables`: what `ringwood run` would have set beside those that are there. `servers`: this process's."""

    def __init__(self, variables=None, servers=(), alone=False):
        self._variables, self._servers, self._alone = variables or {}, servers, alone

    def environment(self):
        """In it while options are read and the session is opened."""
        return lent(self._variables)

    def close(self):
        servers, self._servers = self._servers, ()
        for server in servers:
            server.close(linger=not self._alone)


def enter(given):
    """`given`: the session's options, by keyword."""
    named = identity_of(given)
    if not named and not any(os.environ.get(name) for name in _OF_RANKS):
        return _alone()
    torch = "torch" in sys.modules or "TORCHELASTIC_RUN_ID" in os.environ  # else it may not be installed
    known = os.environ | named
    if torch and not known.get("RINGWOOD_COORDINATOR") and all(map(known.get, _OF_TORCH)):
        with lent(named):
            return _by_torch(given)
    # With a server, or with an error that says what is missing.
    return Entry() if named else Entry(for_served_job(given))


def _alone():
    server = OwnServer(keeps=True)
    sys.stderr.write("ringwood: nothing started this process as a rank of a job, so it trains alone. For more ranks: "
                     "ringwood run -np 4 -- python train.py\n")
    return Entry({"RINGWOOD_COORDINATOR": server.address, "RINGWOOD_TOKEN": server.token, "RANK": "0", "WORLD_SIZE": "1"},
                 [server], alone=True)


def _by_torch(given):
    from torch.distributed import rendezvous
    seconds = load().options(given).join_timeout_seconds
    try:
        if not _torch:
            _torch[:] = aside(next, rendezvous("env://", timeout=datetime.timedelta(seconds=seconds)))[:3]
        store, rank, world = _torch
        _meetings[0] += 1
        servers, variables = meet(store, f"{prefix()}/entry/{_meetings[0]}", rank, world, True)
    except RuntimeError as error:
        raise UnavailableError(f"no server is named in RINGWOOD_COORDINATOR, and torch's store at "
                               f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']} did not say where rank 0 has "
                               f"one: {error}") from error
    return Entry(variables, servers)


def prefix():
    """Of keys in torch's store, which may be that of the processes before torchrun's last restart."""
    return f"ringwood/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"


def meet(store, key, rank, world, keeps=False):
    """(the servers that this rank has started, the variables that `ringwood run` would have set). `key`: of the store, and
    of this meeting; `keeps`: see OwnServer."""
    heard = f"{key}/heard"
    servers = []
    if rank == 0:
        try:
            server = OwnServer(keeps)
            servers.append(server)
            offer = {"coordinator": server.address, "token": server.token, "host": _machine()}
        except (OSError, InvalidError, UnavailableError) as error:
            store.set(key, json.dumps({"error": str(error)}))
            deadline = time.monotonic() + _HEARING_SECONDS
            with contextlib.suppress(RuntimeError):  # a launcher's store is gone
                while store.add(heard, 0) < world - 1 and time.monotonic() < deadline:
                    time.sleep(0.02)
            raise
        store.set(key, json.dumps(offer))
    offer = json.loads(aside(store.get, key))
    if "error" in offer:
        with contextlib.suppress(RuntimeError):  # rank 0 has waited for long enough
            store.add(heard, 1)
        raise UnavailableError(f"rank 0 could not start a server: {offer['error']}")
    if not os.environ.get("RINGWOOD_NETWORK_INTERFACE") and offer["host"] != _machine():
        raise InvalidError(f"rank {rank} is not on the host of rank 0, and without RINGWOOD_NETWORK_INTERFACE Ringwood "
                           "uses loopback: set it on all ranks, and RINGWOOD_TRUSTED_FABRIC=1 if the network is private")
    variables = {"RINGWOOD_COORDINATOR": offer["coordinator"], "RINGWOOD_TOKEN": offer["token"],
                 "RINGWOOD_HOST": os.environ.get("RINGWOOD_HOST") or socket.gethostname()}
    reducers, brought = for_torchruns_job(rank, variables)
    return servers + reducers, variables | brought


def _machine():
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return socket.gethostname()
