"""What the ranks ask for by their calls, compared: the library sees operations, types and sizes of messages, and neither
shapes, factors nor names.

A call that is like none before costs one exchange of a checksum, as Horovod remembers what was agreed on, and all ranks
hear what the others ask for. With every call goes a digest of it, name included: that two ranks make different calls of
which both are known is an error of the call itself, or of the next one where nothing comes from the other rank.
"""

import hashlib
import zlib

import torch

from ..errors import InvalidError

_KNOWN = 4096   # kinds of calls that are remembered; then they are forgotten, on all ranks at once
_DIGEST = 37    # bytes: a length that a call's own messages hardly have, so that the library tells them apart
_NUMBERS = {zlib.crc32(str(each).encode()): each for each in vars(torch).values() if isinstance(each, torch.dtype)}


class Compared:
    """The calls of a process set's ranks, by its ProcessGroup. `about`: the digest of the call that is being started."""

    def __init__(self, group):
        self._group = group
        self._known = {}  # kind -> text
        self._calls = 0
        self.about, self._text = 0, None

    def call(self, words, name, tensor, *others):
        """Before each call on `tensor`: an InvalidError on all ranks if it is new and not the same on all of them.
        `words`: with places for its type and shape, and for `others`. `name`: the script's, or None."""
        self._calls += 1
        kind = (words, tensor.dtype, tensor.shape, *others)
        if kind not in self._known:
            text = words.format(text_of(tensor.dtype, tensor.shape), *others)
            self._compare(text)
            if len(self._known) == _KNOWN:
                self._known.clear()
            self._known[kind] = text
        self.named(name, self._known[kind])

    def named(self, name, text):
        """The call that is started next is the one that `text` tells of."""
        self._text = text if name is None else f'{text}, named "{name}"'
        self.about = int.from_bytes(hashlib.blake2b(self._text.encode(), digest_size=8).digest(), "little")

    def taken(self):
        """It was started: words for it, or None."""
        text, self._text, self.about = self._text, None, 0
        return text

    def _compare(self, text):
        text = text.encode()
        digest = torch.frombuffer(bytearray(hashlib.blake2b(text, digest_size=_DIGEST).digest()), dtype=torch.uint8)
        try:
            digests = self._gather(digest)
        except InvalidError as error:
            raise InvalidError(f"{error}. What this rank calls and compares with the others is {text.decode()}") from error
        if (digests == digests[0]).all():
            return
        lengths = self._gather(torch.tensor([len(text)])).flatten().tolist()
        padded = torch.zeros(max(lengths), dtype=torch.uint8)
        padded[:len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        texts = [row[:length].numpy().tobytes().decode() for row, length in zip(self._gather(padded), lengths)]
        refuse_differing(self._group, f"call {self._calls}", texts)

    def _gather(self, tensor):
        gathered = tensor.new_empty((self._group.size(), len(tensor)))
        self._group.all_gather_single(gathered, tensor).wait()
        return gathered


def refuse_differing(group, what, texts):
    """`texts`: by rank of the group."""
    other = next((rank for rank, each in enumerate(texts) if each != texts[0]), None)
    if other is not None:
        raise InvalidError(f"{what} differs: {texts[0]} on rank {group.ranks[0]}, and {texts[other]} on rank "
                           f"{group.ranks[other]}: all ranks make the same calls in the same order")


def text_of(dtype, shape):
    return f"{str(dtype).removeprefix('torch.')} {tuple(shape)}"


def number_of(dtype):
    """For another rank."""
    return zlib.crc32(str(dtype).encode())


def numbered(number):
    """The element type of another rank."""
    return _NUMBERS.get(number, f"a type numbered {number}")
