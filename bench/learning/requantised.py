"""A trainer whose gradients are summed as on a ring that rounds at every hop: the comparator of bits.py.

    ringwood run -np 4 -- python bench/learning/requantised.py --bits 5 --meet FILE TRAINER ARGUMENT...

A rank adds its gradient to what came, rounds the sum to --bits bits with a scale of its own for each block of 256
elements, and sends it on; the last rounds once more, and that travels to all (so do DynamiQ, arXiv 2602.08923, and other
compressed rings). Rounding is stochastic, so that the sum is right in the mean, and no rank keeps an error. Every rank
gets all gradients by Gloo and adds them up as the ring would; Ringwood then averages equal values, in fp32. Prints the
mean relative error of the sums. For trainers whose ranks have equal weights.
"""

import argparse
import runpy
import sys

import torch
import torch.distributed as dist

import ringwood.gradients
import ringwood.torch as rw

BLOCK = 256


def rounded(values, bits, random):
    """`values`: (rows, n), n a multiple of BLOCK. What arrives of them."""
    blocks = values.view(values.shape[0], -1, BLOCK)
    scale = blocks.abs().amax(2, keepdim=True) / (2 ** (bits - 1) - 1)
    codes = torch.floor(blocks / scale.clamp_min(1e-38) + torch.rand(blocks.shape, generator=random))
    return (codes * scale).view_as(values)


def ring_sum(gradients, bits, random):
    """`gradients`: (ranks, n). What every rank has of their sum, (n)."""
    ranks, n = gradients.shape
    length = -(-n // (ranks * BLOCK)) * BLOCK
    padded = torch.nn.functional.pad(gradients, (0, ranks * length - n)).view(ranks, ranks, length)
    chunks = torch.arange(ranks)
    total = torch.zeros(ranks, length)
    for hop in range(ranks):  # chunk c begins at rank c + 1 and ends at rank c
        total = rounded(total + padded[(chunks + 1 + hop) % ranks, chunks], bits, random)
    return total.view(-1)[:n]


class Ring:
    def __init__(self, bits):
        self.bits = bits
        self.random = torch.Generator().manual_seed(1)  # the same on all ranks
        self.error, self.sums = 0.0, 0

    def average(self, gradient):
        """Puts what the ring makes of it in place of `gradient`."""
        everyone = torch.empty(dist.get_world_size(), gradient.numel())
        dist.all_gather_into_tensor(everyone, gradient.reshape(1, -1).contiguous())
        total, exact = ring_sum(everyone, self.bits, self.random), everyone.sum(0)
        if exact.norm() > 0:
            self.error += float((total - exact).norm() / exact.norm())
            self.sums += 1
        gradient.copy_((total / len(everyone)).view_as(gradient))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bits", type=int, required=True)
    parser.add_argument("--meet", required=True, metavar="FILE", help="which does not exist yet: where the ranks meet")
    parser.add_argument("trainer", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    ring = Ring(arguments.bits)
    announce = ringwood.gradients.Gradients._announce

    def announced(self, index, slot):
        if not dist.is_initialized():
            dist.init_process_group("gloo", f"file://{arguments.meet}", rank=rw.rank(), world_size=rw.size())
        ring.average(slot.parameter.grad)
        announce(self, index, slot)

    ringwood.gradients.Gradients._announce = announced
    sys.argv = arguments.trainer
    runpy.run_path(sys.argv[0], run_name="__main__")
    print(f"mean relative error of {ring.sums} sums: {ring.error / max(1, ring.sums):.4f}", flush=True)


if __name__ == "__main__":
    main()
