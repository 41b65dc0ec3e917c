"""Writes a real residual for codec_bench: the example's network after some steps of error feedback.

    python bench/sparse/gradients.py FILE [--steps 100] [--density 0.01]

All tensors in one row, raw float32: what is selected from at that step (residual + gradient)."""

import argparse
import pathlib
import sys

import torch
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import fashion_mnist as example  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--batch", type=int, default=32)
    arguments = parser.parse_args()
    images, labels = example.load(example.DATA, "train", arguments.steps * arguments.batch)
    model = example.make_model(1)
    residual = torch.zeros(sum(p.numel() for p in model.parameters()))
    k = max(1, round(arguments.density * residual.numel()))
    for step in range(arguments.steps):
        batch = slice(step * arguments.batch, (step + 1) * arguments.batch)
        model.zero_grad()
        functional.cross_entropy(model(example.scaled(images[batch])), labels[batch]).backward()
        residual += torch.cat([p.grad.reshape(-1) for p in model.parameters()])
        picks = residual.abs().topk(k).indices
        sent = torch.zeros_like(residual)
        sent[picks] = residual[picks]
        if step + 1 == arguments.steps:
            break
        residual -= sent
        with torch.no_grad():
            at = 0
            for p in model.parameters():
                p -= 0.05 * sent[at:at + p.numel()].view_as(p)
                at += p.numel()
    pathlib.Path(arguments.file).write_bytes(residual.numpy().tobytes())
    print(f"{residual.numel()} elements, {arguments.steps} steps at density {arguments.density}")


main()
