"""A rank of the convergence grid: the character LSTM of examples/char_lstm.py, with a part of the text that it does not
learn. What counts is the lowest perplexity a letter of that part: later the model learns the text by heart.
"""

import argparse
import contextlib
import importlib.util
import json
import math
import os
import pathlib
import time

import numpy as np
import torch
from torch.nn.functional import cross_entropy

import ringwood.torch as rw
from ringwood.examples.letters import read

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "char_lstm.py"
TEXT = "/usr/share/common-licenses/GPL-3"
BATCH, WINDOW, HIDDEN, LR, MOMENTUM = 32, 48, 192, 0.5, 0.9
VALIDATED = 10  # the last part of so many is not learned
LOOKS = 40      # at the perplexity, in a run
LEAST_SPARSE = 4096


def load_example():
    specification = importlib.util.spec_from_file_location("char_lstm", EXAMPLE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def windows(text, begins):
    return text[begins[:, None] + torch.arange(WINDOW + 1)]


@torch.no_grad()
def perplexity(model, text):
    rows = windows(text, torch.arange(0, len(text) - WINDOW, WINDOW))
    return math.exp(cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()).item())


def groups_of(model, route):
    """Biases and the embedding, 5 % of the model, are dense in any case."""
    parameters = list(model.parameters())
    small = [p for p in parameters if p.numel() < LEAST_SPARSE]
    return [{"params": [p for p in parameters if p.numel() >= LEAST_SPARSE], "route": route},
            {"params": small, "route": "dense"}]


def wrap(model, arguments):
    if not arguments.every:  # the velocity lives in Ringwood
        return rw.DistributedOptimizer(torch.optim.SGD(groups_of(model, arguments.route), LR), model.named_parameters(),
                                       arguments.density, momentum_correction=MOMENTUM)
    inner = torch.optim.SGD(model.parameters(), LR, MOMENTUM)
    return rw.LocalSteps(model, inner, arguments.every, rw.OuterSGD(), arguments.density if arguments.chunk else None,
                         codec=arguments.codec, chunk=arguments.chunk, residual_decay=arguments.decay)


def train(example, model, learned, validated, arguments, steps):
    """(optimizer, [[step, seconds without looks, perplexity], …])"""
    optimizer = wrap(model, arguments)
    outer = optimizer.outer_parameters if arguments.every else contextlib.nullcontext
    rw.broadcast_parameters(model.state_dict())
    low, high = BATCH * rw.rank() // rw.size(), BATCH * (rw.rank() + 1) // rw.size()
    places, curve, seconds = torch.Generator().manual_seed(arguments.seed), [], 0.0
    for step in range(steps):
        began = time.monotonic()
        mine = windows(learned, torch.randint(len(learned) - WINDOW, (BATCH,), generator=places)[low:high])
        for group in optimizer.param_groups:
            group["lr"] = example.learning_rate(LR, step, steps)
        optimizer.zero_grad()
        optimizer.weight = high - low
        cross_entropy(model(mine[:, :-1]).flatten(0, 1), mine[:, 1:].flatten()).backward()
        optimizer.step()
        seconds += time.monotonic() - began
        if (step + 1) % max(1, steps // LOOKS) == 0:
            with outer():
                curve.append([step + 1, seconds, perplexity(model, validated) if rw.rank() == 0 else 0.0])
    if arguments.every:
        optimizer.join()
    return optimizer, curve


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--density", type=float, default=0.01)
    parser.add_argument("--route", default="sparse", choices=["dense", "sparse"])
    parser.add_argument("--every", type=int, default=0, help="local steps from one exchange to the next")
    parser.add_argument("--codec", default=None, help="of LocalSteps, as --chunk and --decay")
    parser.add_argument("--chunk", type=int, default=None)
    parser.add_argument("--decay", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=100, help="passes over the text")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rw.init()
    torch.manual_seed(arguments.seed)
    example = load_example()
    text, letters = read(TEXT)
    cut = len(text) - len(text) // VALIDATED
    steps = arguments.epochs * -(-cut // (BATCH * WINDOW))
    model = example.Characters(letters, HIDDEN)
    optimizer, curve = train(example, model, text[:cut], text[cut:], arguments, steps)
    counts = optimizer.session.allreduce(np.array(optimizer.traffic(), np.float64)).tolist()
    dense, sparse = (count / (steps * rw.size()) for count in counts[1:3])
    equivalent = counts[3] / counts[0]
    if rw.rank() == 0:
        report = {"perplexity": min(value for _, _, value in curve), "steps": steps, "world": rw.size(), "device": "cpu",
                  "seconds": curve[-1][1], "curve": curve, "delta": {},
                  "bytes_per_step": {"dense": dense, "sparse": sparse, "dense_equivalent": equivalent}}
        pathlib.Path(os.environ["RINGWOOD_GRID_REPORT"]).write_text(json.dumps(report))
    optimizer.session.close()


if __name__ == "__main__":
    main()
