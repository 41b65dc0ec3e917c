"""How the state of a training lies in a checkpoint: under which names, and what is each rank's own.

A tensor's item is named by its path: "model/fc.weight", "optimizers/0/state/3/exp_avg". Older versions numbered them.
All that is no tensor is in the skeletons (state.py).
"""

from .agreement import broadcast_tree
from .errors import NotFoundError
from .random_state import random_state, set_random_state
from .state import state_items, state_of_items

SKELETON, FORMER_TENSOR = "training/skeleton", "training/tensor/{}"
OWN_SKELETON, FORMER_OWN_TENSOR = "training/own/skeleton", "training/own/tensor/{}"
OWN_PARTS = "training/own/parts"
RANDOM = "training/random"


def shared_items(tree):
    """Name -> bytes or tensor, of what is alike on all ranks."""
    return state_items(tree, SKELETON)


def own_items(model, parts):
    """The same of this rank's own: its random generators, and what differs of the model's state and of the parts."""
    return {RANDOM: random_state(), **state_items(model, OWN_SKELETON, "model"),
            **state_items(parts, OWN_PARTS, "parts")}


def read_shared(session):
    """The tree of what is alike, from the checkpoint that the session resumed from."""
    return _read(session, "shared", SKELETON, FORMER_TENSOR)


def read_own(session, saved):
    """{"model": …, "parts": …} that differ from rank to rank, of a checkpoint of `saved` ranks; sets the random
    generators. A rank that it has not has rank 0's, and its own random generators. Every rank calls it."""
    own = {"model": {}, "parts": {}}
    if session.rank < saved:
        own["model"] = _read(session, "per_rank", OWN_SKELETON, FORMER_OWN_TENSOR)
        own["parts"] = _own_parts(session)
        set_random_state(session.restore(RANDOM, "per_rank"))
    if session.world > saved:
        first = broadcast_tree(session, own)
        own = own if session.rank < saved else first
    return own


def _own_parts(session):
    try:
        return _read(session, "per_rank", OWN_PARTS, "{}")
    except NotFoundError:  # of an older version
        return {}


def _read(session, scope, skeleton_name, former):
    return state_of_items(
        lambda name: session.restore(former.format(name) if isinstance(name, int) else name, scope),
        skeleton_name)
