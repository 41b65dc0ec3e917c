"""Comparing and sharing values between the ranks."""

import hashlib
import json
import zlib

import numpy as np

from . import library
from .content import bytes_of
from .errors import AbortedError, InvalidError
from .state import fill, flatten, gather_tensors, unflatten


def broadcast_bytes(session, content, root=0):
    """Broadcasts the root's bytes; the argument of the others is ignored."""
    length = session.broadcast(np.array([len(content)], np.int64), root)[0]
    out = np.zeros(length, np.uint8)
    if session.rank == root:
        out[:] = np.frombuffer(content, np.uint8)
    if length:
        session.broadcast(out, root)
    return out.tobytes()


def repeated(session, calls):
    """What `calls()` returns, which makes calls of all ranks before the first step. Where an elastic job loses a rank
    under them, they begin anew among the others. None on a rank that comes to a job that runs: it makes none."""
    while not session.receiving:
        epoch = session.epoch
        try:
            return calls()
        except AbortedError:
            if session.epoch == epoch:  # of a job that does not go on
                raise
    return None


def refuse_differences(session, settings, root=0, then=None):
    """`settings`: name -> JSON value. Every rank raises if one rank's values differ; the error
    names the first difference to rank 0. A rank that comes to a job that runs is compared by nobody.

    `then(root)`: calls of all ranks that follow, repeated with these; by the root's present number. They fail where the
    root has died, and its values with it."""
    rank, world, step = session.opened
    is_root = (rank if session.step == step else session.rank) == root

    def calls():
        found = _refuse_differences(session, json.dumps(settings).encode(), is_root)
        if then is None:
            return
        if found < 0 <= root < world:
            raise AbortedError(f"rank {root} has died, and its values with it, before the others had them: start again")
        then(root if found < 0 else found)

    repeated(session, calls)


def _refuse_differences(session, text, is_root):
    """Returns the root's number, or -1."""
    number = zlib.crc32(text)
    highest, lowest, root = session.allreduce(np.array([number, -number, session.rank if is_root else -1], np.int64),
                                              op="max").tolist()
    if highest == -lowest:
        return root
    mine, first = json.loads(text), json.loads(broadcast_bytes(session, text))
    for name in {**first, **mine}:
        if mine.get(name) != first.get(name):
            raise InvalidError(f"{name} is {mine.get(name)} on rank {session.rank} and {first.get(name)} on "
                               "rank 0: the settings must be the same on every rank")
    raise InvalidError("another rank has other settings than rank 0; its own error names them")


def digest_of(tensor):
    """A digest of 63 bits."""
    return library.load().digest(bytes_of(tensor).numpy()) >> 1


def digest_of_tree(tree):
    """The same of a tree as state.flatten takes it."""
    skeleton, tensors = flatten(tree)
    parts = [skeleton, *(digest_of(tensor).to_bytes(8, "little") for tensor in tensors.values())]
    return int.from_bytes(hashlib.blake2b(b"".join(parts), digest_size=8).digest(), "little") >> 1


def differing(session, tensors):
    """For each, whether the ranks have different bytes. Every rank calls it with equally many."""
    return differing_digests(session, [digest_of(tensor) for tensor in tensors])


def differing_digests(session, digests):
    """For each, whether it differs from rank to rank. Every rank calls it with equally many."""
    mine = np.array(digests, np.int64)
    both = np.concatenate([mine, -mine])
    if digests:
        session.allreduce(both, op="max")
    return (both[:len(mine)] != -both[len(mine):]).tolist()


def broadcast_tree(session, tree, root=0):
    """The root's tree, as state.flatten takes it, on all ranks; the argument of the others is ignored."""
    skeleton, tensors = flatten(tree)
    content = b"".join(bytes_of(tensor).numpy().tobytes() for tensor in tensors.values() if tensor.numel())
    skeleton = broadcast_bytes(session, skeleton, root)
    content = broadcast_bytes(session, content, root)
    tensors, at = gather_tensors(skeleton), 0
    for tensor in tensors.values():
        size = tensor.numel() * tensor.element_size()
        fill(tensor, content[at:at + size])
        at += size
    return unflatten(skeleton, list(tensors.values()))
