"""What the ranks ask for by their calls, compared: the library sees types and sizes of messages, and neither operations
nor shapes.

A call that is like none before costs one exchange of a checksum, all others nothing: as Horovod remembers what was
agreed on. That two ranks make different calls of which both are known comes out at the next exchange.
"""

import hashlib
import json
import zlib

import torch

from ..errors import InvalidError

_EVERY = 64     # calls, after which they are compared although all were known
_KNOWN = 4096   # kinds of calls that are remembered; then they are forgotten, on all ranks at once
_DIGEST = 37    # bytes: a length that a call's own messages hardly have, so that the library tells them apart
_NUMBERS = {zlib.crc32(str(each).encode()): each for each in vars(torch).values() if isinstance(each, torch.dtype)}


class Compared:
    """The calls of a process set's ranks, by its ProcessGroup."""

    def __init__(self, group):
        self._group = group
        self._known, self._recent = {}, []     # kind -> text; texts of the calls since they were compared
        self._before = 0                       # calls that were compared

    def call(self, words, tensor, *others):
        """Before each call on `tensor`: an InvalidError on all ranks if it, or one since the last comparison, is not the
        same on all of them. `words`: with places for its type and shape, and for `others`."""
        kind = (words, tensor.dtype, tensor.shape, *others)
        text = known = self._known.get(kind)
        if known is None:
            text = words.format(text_of(tensor.dtype, tensor.shape), *others)
        self._recent.append(text)
        if known is None or len(self._recent) == _EVERY:
            recent, self._recent = self._recent, []
            self._compare(recent)
            self._before += len(recent)
            if len(self._known) == _KNOWN:
                self._known.clear()
            self._known[kind] = text

    def _compare(self, recent):
        text = json.dumps(recent).encode()
        digest = torch.frombuffer(bytearray(hashlib.blake2b(text, digest_size=_DIGEST).digest()), dtype=torch.uint8)
        try:
            digests = self._gather(digest)
        except InvalidError as error:
            raise InvalidError(f"{error}. What this rank calls and compares with the others is {recent[-1]}") from error
        if (digests == digests[0]).all():
            return
        lengths = self._gather(torch.tensor([len(text)])).flatten().tolist()
        padded = torch.zeros(max(lengths), dtype=torch.uint8)
        padded[:len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        texts = [json.loads(row[:length].numpy().tobytes()) for row, length in zip(self._gather(padded), lengths)]
        refuse_differing(self._group, "call {}", texts, self._before)

    def _gather(self, tensor):
        gathered = tensor.new_empty((self._group.size(), len(tensor)))
        self._group.all_gather_single(gathered, tensor).wait()
        return gathered


def refuse_differing(group, what, texts, before=0):
    """`texts`: by rank of the group, a list each."""
    for at in range(max(map(len, texts))):
        asked = [each[at] if at < len(each) else "nothing" for each in texts]
        other = next((rank for rank, each in enumerate(asked) if each != asked[0]), None)
        if other is not None:
            one, two = group.ranks[0], group.ranks[other]
            raise InvalidError(f"{what.format(before + at + 1)} differs: {asked[0]} on rank {one}, and {asked[other]} on "
                               f"rank {two}: all ranks make the same calls in the same order")


def text_of(dtype, shape):
    return f"{str(dtype).removeprefix('torch.')} {tuple(shape)}"


def number_of(dtype):
    """For another rank."""
    return zlib.crc32(str(dtype).encode())


def numbered(number):
    """The element type of another rank."""
    return _NUMBERS.get(number, f"a type numbered {number}")
