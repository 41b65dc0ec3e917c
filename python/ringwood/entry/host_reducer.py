"""The reducer of a host, which its first rank starts, so that sparse entries are added up before they leave the host
(sparse/tree.h). `ringwood run` starts reducers itself; this is for launchers that know nothing of them.
"""

import os

from ..library import load
from .own_server import OwnReducer

# Of the launchers, the rank among those of its host. torchrun may be started by the others.
_LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
_BROUGHT = {"RINGWOOD_BRINGS_REDUCER": "1"}  # what the session reads
_of_served_jobs = {}  # by the server's address: they serve all jobs of this process, and end with it


def for_served_job(given):
    """For the job of `ringwood server -- COMMAND`, which says on which host there is one already. The variables to set;
    `given`: the session's options, by keyword."""
    address, served = os.environ.get("RINGWOOD_COORDINATOR"), os.environ.get("RINGWOOD_SERVER_HOST")
    if not (address and served and _is_first_of_host()):
        return {}
    options = load().options(given)
    host = options.host.decode()
    if host == served:
        return {}
    if address not in _of_served_jobs or _of_served_jobs[address].ended():
        _of_served_jobs[address] = OwnReducer(address, os.environ.get("RINGWOOD_TOKEN", ""), options.rank, host)
    return _BROUGHT


def for_torchruns_job(rank, variables):
    """For a job whose server rank 0 has started. (what to close with the session, the variables to set) where torchrun
    says that there are several hosts."""
    if int(os.environ.get("GROUP_WORLD_SIZE", "1")) < 2 or not _is_first_of_host():
        return [], {}
    reducer = OwnReducer(variables["RINGWOOD_COORDINATOR"], variables["RINGWOOD_TOKEN"], rank, variables["RINGWOOD_HOST"])
    return [reducer], _BROUGHT


def _is_first_of_host():
    return next((os.environ[name] for name in _LOCAL_RANKS if os.environ.get(name)), "") == "0"
