"""Trains a character LSTM on a text that every Debian has, over Ringwood.

    ringwood run -np 4 -- python examples/char_lstm.py
    python examples/char_lstm.py --single            # the same training in one process, plain PyTorch

Each step takes --batch windows of the text at places drawn from the seed; rank r of P takes the windows
[B*r/P, B*(r+1)/P). The same seed gives the same bits.
"""

import argparse
import json
import os
import time

import torch
from torch import nn

from ringwood.examples.letters import read


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3", help="file to learn")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=32, help="windows a step, all ranks together")
    parser.add_argument("--window", type=int, default=48, help="characters in a window")
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--density", type=float, default=0.02, help="share of entries sent, sparse tensors")
    parser.add_argument("--route", default="auto", choices=["auto", "dense", "sparse"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", default=os.environ.get("RINGWOOD_REPORT"), metavar="FILE",
                        help="write the results as JSON")
    parser.add_argument("--single", action="store_true", help="one process, no exchange: the reference")
    return parser.parse_args()


class Characters(nn.Module):
    def __init__(self, letters, hidden):
        super().__init__()
        self.embedding = nn.Embedding(letters, 32)
        self.lstm = nn.LSTM(32, hidden, batch_first=True)
        self.out = nn.Linear(hidden, letters)

    def forward(self, windows):
        return self.out(self.lstm(self.embedding(windows))[0])


def learning_rate(highest, step, total):
    """Rises over the first tenth of the steps, then falls in a straight line to a tenth."""
    rise = max(1, total // 10)
    if step < rise:
        return highest * (step + 1) / rise
    return highest * (1 - 0.9 * (step - rise) / max(1, total - rise))


def wrap(model, arguments):
    """(optimizer, rank, world, session). The velocity lives in Ringwood: the optimizer's own momentum
    is 0."""
    if arguments.single:
        return torch.optim.SGD(model.parameters(), arguments.lr, arguments.momentum), 0, 1, None
    import ringwood.torch as rw
    rw.init()
    optimizer = rw.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), arguments.lr), model.named_parameters(), arguments.density,
        momentum_correction=arguments.momentum, route=arguments.route)
    rw.broadcast_parameters(model.state_dict())
    return optimizer, rw.rank(), rw.size(), optimizer.session


def train(model, text, arguments):
    """The mean loss of each step, over all ranks."""
    optimizer, rank, world, session = wrap(model, arguments)
    low, high = arguments.batch * rank // world, arguments.batch * (rank + 1) // world
    places = torch.Generator().manual_seed(arguments.seed)
    losses = torch.zeros(arguments.steps, dtype=torch.float64)
    began = time.monotonic()
    for step in range(arguments.steps):
        begins = torch.randint(len(text) - arguments.window - 1, (arguments.batch,), generator=places)
        mine = text[begins[low:high, None] + torch.arange(arguments.window + 1)]
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(arguments.lr, step, arguments.steps)
        optimizer.zero_grad()
        optimizer.weight = high - low
        if high > low:
            loss = nn.functional.cross_entropy(model(mine[:, :-1]).flatten(0, 1), mine[:, 1:].flatten())
            loss.backward()
            losses[step] = loss.item() * (high - low) / arguments.batch
        optimizer.step()
        if rank == 0 and (step + 1) % max(1, arguments.steps // 10) == 0:
            rate = (step + 1) / (time.monotonic() - began)
            print(f"step {step + 1}/{arguments.steps}: loss {loss.item():.3f} on this rank, {rate:.1f} steps/s",
                  flush=True)
    if session is not None:
        session.allreduce(losses)
    return losses.tolist(), rank, session


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)  # sums in one order; the ranks share the cores anyway
    torch.manual_seed(arguments.seed)
    text, letters = read(arguments.text, arguments.window + 2)
    losses, rank, session = train(Characters(letters, arguments.hidden), text, arguments)
    last = losses[-max(1, len(losses) // 20):]
    if rank == 0:
        print(f"loss {losses[0]:.3f} at first, {sum(last) / len(last):.3f} over the last {len(last)} of "
              f"{len(losses)} steps")
        if arguments.report:
            with open(arguments.report, "w") as file:
                json.dump({"losses": losses}, file)
    if session is not None:
        session.close()


if __name__ == "__main__":
    main()
