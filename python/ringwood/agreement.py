"""Comparing and sharing values between the ranks."""

import hashlib
import json
import zlib

import numpy as np
import torch

from .errors import InvalidError


def broadcast_bytes(session, content, root=0):
    """Broadcasts the root's bytes; the argument of the others is ignored."""
    length = session.broadcast(np.array([len(content)], np.int64), root)[0]
    out = np.zeros(length, np.uint8)
    if session.rank == root:
        out[:] = np.frombuffer(content, np.uint8)
    if length:
        session.broadcast(out, root)
    return out.tobytes()


def refuse_differences(session, settings):
    """`settings`: name -> JSON value. Every rank raises if one rank's values differ; the error
    names the first difference to rank 0. A rank that comes to a job that runs is compared by nobody."""
    if session.receiving:
        return
    text = json.dumps(settings).encode()
    number = zlib.crc32(text)
    highest, lowest = session.allreduce(np.array([number, -number], np.int64), op="max")
    if highest == -lowest:
        return
    mine, first = json.loads(text), json.loads(broadcast_bytes(session, text))
    for name in {**first, **mine}:
        if mine.get(name) != first.get(name):
            raise InvalidError(f"{name} is {mine.get(name)} on rank {session.rank} and {first.get(name)} on "
                               "rank 0: the settings must be the same on every rank")
    raise InvalidError("another rank has other settings than rank 0; its own error names them")


def digest_of(tensor):
    """A digest of 63 bits."""
    content = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little") >> 1


def differing(session, tensors):
    """For each, whether the ranks have different bytes. Every rank calls it with equally many."""
    digests = np.array([digest_of(tensor) for tensor in tensors], np.int64)
    both = np.concatenate([digests, -digests])
    if tensors:
        session.allreduce(both, op="max")
    return (both[:len(tensors)] != -both[len(tensors):]).tolist()
