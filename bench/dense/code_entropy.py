"""What an entropy coder could save of int8 and int4 codes: the example's network, four ranks, real gradients.

    python bench/dense/code_entropy.py [--steps 24] [--ranks 4]

Trains with the codec of dense/lattice/codes.h and prints of the last step: the bits that codes and their
sums take, their entropy, the bits of a width chosen block by block, and zlib's Huffman coder on the sums,
with its speed in fp32 bytes of the tensor a second on one core."""

import argparse
import math
import pathlib
import sys
import time
import zlib

import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import fashion_mnist as example  # noqa: E402

BLOCK = 256
BATCH = 32


def scale_of(reach, levels):
    """Two bits behind the leading one, rounded up."""
    mantissa, exponent = torch.frexp(reach / levels)
    return torch.ldexp(torch.ceil(mantissa * 8) / 8, exponent)


def entropy(values):
    counts = torch.bincount((values - values.min()).long().flatten()).double()
    shares = counts[counts > 0] / counts.sum()
    return -(shares * shares.log2()).sum().item()


def gradient(model, images, labels, batch):
    model.zero_grad()
    here = slice(batch * BATCH, (batch + 1) * BATCH)
    functional.cross_entropy(model(example.scaled(images[here])), labels[here]).backward()
    flat = [functional.pad(p.grad.reshape(-1), (0, -p.numel() % BLOCK)) for p in model.parameters()]
    return torch.cat(flat).view(-1, BLOCK)


def apply(model, average, rate):
    at = 0
    with torch.no_grad():
        for p in model.parameters():
            p -= rate * average.view(-1)[at:at + p.numel()].view_as(p)
            at += p.numel() + -p.numel() % BLOCK


def train(levels, ranks, steps):
    """Of the last step: one rank's codes, and the sums."""
    images, labels = example.load(example.DATA, "train", ranks * BATCH * steps)
    model = example.make_model(1)
    reach = error = None
    for step in range(steps):
        values = torch.stack([gradient(model, images, labels, step * ranks + r) for r in range(ranks)])
        if error is None:
            error = torch.zeros_like(values)
            reach = torch.zeros(values.shape[1], 1)
        values += error
        scale = scale_of(reach, levels)
        codes = torch.where(scale > 0, values / scale, torch.zeros(())).round().clamp(-levels, levels)
        error = values - codes * scale
        sums = codes.sum(0)
        reach = torch.maximum(values.abs().amax((0, 2)).unsqueeze(1), reach / 2)
        apply(model, sums * scale / ranks, 0.1)
    return codes[0], sums


def huffman(sums, highest):
    raw = (sums + highest).to(torch.uint8 if highest < 128 else torch.int16).numpy().tobytes()
    begin = time.perf_counter()
    coder = zlib.compressobj(1, zlib.DEFLATED, -15, 9, zlib.Z_HUFFMAN_ONLY)
    coded = coder.compress(raw) + coder.flush()
    middle = time.perf_counter()
    zlib.decompress(coded, -15)
    end = time.perf_counter()
    gigabytes = sums.numel() * 4 / 1e9
    return 8 * len(coded) / sums.numel(), gigabytes / (middle - begin), gigabytes / (end - middle)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--ranks", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, levels in (("int4", 7), ("int8", 127)):
        codes, sums = train(levels, arguments.ranks, arguments.steps)
        widths = [(2 * levels * terms).bit_length() for terms in (1, arguments.ranks)]
        by_block = sum(math.ceil(math.log2(2 * m + 1)) for m in sums.abs().amax(1).tolist()) / len(sums)
        bits, encode, decode = huffman(sums, levels * arguments.ranks)
        print(f"{name}: codes {widths[0]} bits, entropy {entropy(codes):.2f}; sums {widths[1]} bits, entropy "
              f"{entropy(sums):.2f}, a width for each block {by_block:.2f}, Huffman {bits:.2f} "
              f"({encode:.2f} GB/s, back {decode:.2f})", flush=True)


main()
