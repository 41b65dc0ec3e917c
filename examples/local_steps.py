"""Trains a small character GPT with AdamW and local steps: ranks exchange every --every steps, not every step.

    ringwood run -np 4 -- python examples/local_steps.py --recipe diloco
    ringwood run -np 4 -- python examples/local_steps.py --recipe streaming
    ringwood run -np 4 -- python examples/local_steps.py --recipe sparseloco
    ringwood run -np 4 -- python examples/local_steps.py --recipe pairs --every 2
    ringwood run -np 4 -- python examples/local_steps.py --recipe every-step     # DistributedOptimizer, to compare with

Each rank draws windows of its own from the text, whose last tenth validates the parameters that all ranks end with. With `ringwood run --store DIR` the job saves every --save rounds, and --resume goes on.
"""

import argparse
import json
import os
import time

import torch
from torch import nn
from torch.nn import functional

import ringwood.torch as rw
from ringwood.examples.letters import read

# DiLoCo: Douillard et al. 2023; streaming: Douillard et al. 2025; SparseLoCo: Sarfi et al. 2025.
# Pairs: two steps of AdamW as of the average, docs/local_steps.md.
RECIPES = {
    "pairs": dict(outer=rw.OuterSGD(lr=1.0), codec="int4"),
    "diloco": dict(outer=rw.Nesterov(lr=0.7, momentum=0.9)),
    "streaming": dict(outer=rw.Nesterov(lr=0.7, momentum=0.9), fragments=2, delay=2, mix=0.5, codec="int4"),
    "sparseloco": dict(outer=rw.OuterSGD(lr=1.0), density=64 / 4096, chunk=4096, codec="rice/int2",
                       residual_decay=0.95),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", default="diloco", choices=[*RECIPES, "every-step"])
    parser.add_argument("--every", type=int, default=16, metavar="H", help="steps from one exchange to the next")
    parser.add_argument("--steps", type=int, default=480)
    parser.add_argument("--batch", type=int, default=8, help="windows a step and rank")
    parser.add_argument("--window", type=int, default=64, help="characters in a window")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-3, help="the highest of AdamW")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3", help="file to learn")
    parser.add_argument("--save", type=int, default=10, metavar="N", help="checkpoint after every N exchanges")
    parser.add_argument("--report", default=os.environ.get("RINGWOOD_REPORT"), metavar="FILE",
                        help="write the results as JSON")
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.attend(self.before(x)).chunk(3, -1))
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).flatten(2))
        return x + self.think(self.between(x))


class GPT(nn.Module):
    """As GPT-2, smaller; the output shares the embedding's weights."""

    def __init__(self, letters, window, layers, width, heads):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(window, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.after, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)
        self.head.weight = self.letter.weight
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.05)

    def forward(self, windows):
        """The mean loss of predicting each window's next letters."""
        x, y = windows[:, :-1], windows[:, 1:]
        x = self.letter(x) + self.place(torch.arange(x.shape[1]))
        return functional.cross_entropy(self.head(self.after(self.blocks(x))).flatten(0, 1), y.flatten())


def split(text):
    """(for training, for validation): the last tenth validates."""
    cut = len(text) * 9 // 10
    return text[:cut], text[cut:]


def windows_of(text, starts, window):
    return text[starts[:, None] + torch.arange(window + 1)]


def learning_rate(step, total):
    """Rises over a twentieth of the steps, then falls in a straight line to a tenth."""
    rise = max(1, total // 20)
    return (step + 1) / rise if step < rise else 1 - 0.9 * (step - rise) / max(1, total - rise)


def wrap(model, arguments):
    adamw = rw.AverageAdamW if arguments.recipe == "pairs" else torch.optim.AdamW
    inner = adamw(model.parameters(), arguments.lr, betas=(0.9, 0.95))
    if arguments.recipe == "every-step":
        return rw.DistributedOptimizer(inner, model.named_parameters())
    return rw.LocalSteps(model, inner, every=arguments.every, **RECIPES[arguments.recipe])


def train(model, optimizer, scheduler, text, arguments):
    """Seconds that it took."""
    place = {"step": 0}
    checkpoint = rw.Checkpoint(model, optimizer, every=arguments.save, scheduler=scheduler, place=place)
    checkpoint.restore()
    begun = time.monotonic()
    while place["step"] < arguments.steps:
        starts = torch.randint(0, len(text) - arguments.window - 1, (arguments.batch,))
        optimizer.zero_grad()
        optimizer.weight = arguments.batch * arguments.window
        model(windows_of(text, starts, arguments.window)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        place["step"] += 1
        checkpoint.step()
    if arguments.recipe != "every-step":
        optimizer.join()  # what was trained since the last exchange; then all ranks have the same parameters
    return time.monotonic() - begun


@torch.no_grad()
def validate(model, text, window):
    model.eval()
    starts = torch.arange(0, len(text) - window - 1, window)
    return model(windows_of(text, starts, window)).item()


def report(arguments, model, optimizer, loss, seconds):
    exchanges, dense, sparse, whole = optimizer.traffic()
    every_step = whole / max(1, exchanges) * arguments.steps  # what a dense exchange in every step would send
    result = {"recipe": arguments.recipe, "every": arguments.every, "workers": rw.size(), "steps": arguments.steps,
              "parameters": sum(parameter.numel() for parameter in model.parameters()), "validation_loss": loss,
              "exchanges": int(exchanges), "bytes": int(dense + sparse), "seconds": seconds,
              "times_fewer_bytes": every_step / max(1, dense + sparse)}
    if rw.rank() == 0:
        print(f"{arguments.recipe}: validation loss {loss:.4f} after {arguments.steps} steps of {rw.size()} ranks in "
              f"{seconds:.1f} s; {result['exchanges']} exchanges, {result['times_fewer_bytes']:.0f} times fewer bytes than "
              "a dense one in every step", flush=True)
        if arguments.report:
            with open(arguments.report, "w", encoding="utf-8") as file:
                json.dump(result, file)


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    text, letters = read(arguments.text, 10 * (arguments.window + 2))
    training, validation = split(text)
    rw.init()
    torch.manual_seed(arguments.seed)
    model = GPT(letters, arguments.window, arguments.layers, arguments.width, arguments.heads)
    optimizer = wrap(model, arguments)
    rw.broadcast_parameters(model.state_dict())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, arguments.steps))
    torch.manual_seed(1000 * arguments.seed + rw.rank())  # each rank its own windows
    seconds = train(model, optimizer, scheduler, training, arguments)
    report(arguments, model, optimizer, validate(model, validation, arguments.window), seconds)


if __name__ == "__main__":
    main()
