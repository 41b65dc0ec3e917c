"""The codec of dense/lattice/codes.h in PyTorch, for all ranks of a simulation at once and with other numbers.

    int8, int4                            as `--wire` has them, to the bit of a run
    12 bits, 20 bits                      more levels: 20 bits with a headroom of 32 neither round nor cut off
    int8, headroom 16, block 256, fall 8  with other numbers: how much larger than the largest values of the last rounds one
                                          may be, elements of a block, most of 1/128 octaves that a reach falls by
"""

import torch

LEAST, DROPPED = (127 - 96) << 7, (1 << 21) - 1
LEVELS = {"int8": 127, "int4": 7, "12 bits": 2**11 - 1, "20 bits": 2**19 - 1}
HEADROOM, BLOCK, FALL = 4.0, 64, 32


def is_coded(case):
    return case.partition(", ")[0] in LEVELS


def told(reach, seen):
    """What the ranks' words of a byte say of `seen` (dense/lattice/reach.h): it, or a little more."""
    known = reach >= LEAST
    base, fine = torch.where(known, reach, LEAST) - 128, torch.where(known, 128, 0)
    above = seen - base
    beyond = above - 8 * fine
    word = torch.where(beyond <= 0, (above + 7) // 8, fine + (beyond + 127) // 128).clamp(0, 254)
    low = torch.minimum(word, fine)
    return torch.where((word == 0) & ~known, 0, base + 8 * low + 128 * (word - low)).int()


class Codec:
    """Of one tensor: what its ranks owe, (ranks, elements), and its blocks' reaches. `wire_reach`: of int4."""

    def __init__(self, case, ranks, elements, wire_reach):
        form, *changes = case.split(", ")
        numbers = {name: float(number) for name, number in (change.split() for change in changes)}
        self.levels, self.elements = LEVELS[form], elements
        self.headroom = numbers.get("headroom", wire_reach if form == "int4" else HEADROOM)
        self.block, self.fall = int(numbers.get("block", BLOCK)), int(numbers.get("fall", FALL))
        blocks = -(-elements // self.block)
        self.reach = torch.zeros(blocks, dtype=torch.int32)
        self.error = torch.zeros(ranks, blocks * self.block)

    def scales(self):
        largest = (self.reach << 16).view(torch.float32) * self.headroom / self.levels
        rounded = ((largest.view(torch.int32) + DROPPED) & ~DROPPED).view(torch.float32)
        return torch.where(self.reach < LEAST, torch.zeros(()), rounded)

    def sum(self, values):
        """(ranks, elements): what all ranks get of their sum."""
        owed = self.error + torch.nn.functional.pad(values, (0, self.error.shape[1] - self.elements))
        scale = self.scales().repeat_interleave(self.block)
        inverse = torch.where(scale > 0, 1 / scale, torch.zeros(()))
        codes = torch.round(owed * inverse).clamp(-self.levels, self.levels)
        codes[owed.abs() >= scale * 2.0**21] = 0
        self.error = owed - codes * scale
        largest = owed.abs().amax(0).view(-1, self.block).amax(1)
        seen = told(self.reach, ((largest.view(torch.int32).long() + 0xffff) >> 16).int())
        fall = ((self.reach - seen) // 4).clamp(max=self.fall)
        self.reach = torch.where(seen >= self.reach, seen, (self.reach - fall).clamp(min=0))
        return (codes.sum(0) * scale)[:self.elements]
