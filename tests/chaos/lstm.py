#!/usr/bin/env python3
"""The LSTM of examples/char_lstm.py in an elastic job; its windows of the text come from the sample cursor.

    tests/chaos/lstm.py HISTORY [--passes N] [--windows N]

Loads all, writes `start` into the history and waits for the file HISTORY.gate; then it joins. With SIGUSR1 this rank leaves in
order, after its next step. The history has the mean loss of this rank's windows with each step.
"""

import argparse
import pathlib
import signal
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ringwood.torch as rw

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
from char_lstm import Characters, learning_rate, read  # noqa: E402
from history import History, taken  # noqa: E402

TEXT = "/usr/share/common-licenses/GPL-3"
BATCH, WINDOW, HIDDEN, RATE, MOMENTUM, DENSITY = 32, 32, 64, 0.5, 0.9, 0.05
PACE = 0.04  # seconds of a step at least, so that the job lasts while its members change
LOOK = 0.01  # seconds between two looks for the gate

asked_to_leave = []


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("history")
    parser.add_argument("--passes", type=int, default=12)
    parser.add_argument("--windows", type=int, default=2048)
    return parser.parse_args()


def windows_of(text, count):
    begins = torch.arange(count) * ((len(text) - WINDOW - 1) // count)
    return TensorDataset(torch.arange(count), text[begins[:, None] + torch.arange(WINDOW + 1)])


def step(model, optimizer, windows, rate):
    """The mean loss of this rank's windows."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    return loss.item()


def train(model, optimizer, data, arguments, history):
    sampler = rw.Sampler(data, BATCH, seed=1)
    elastic = rw.elastic(model, optimizer, sampler)
    session, total = optimizer.session, arguments.passes * len(sampler)
    history.opened(session)
    while sampler.passes < arguments.passes:
        for indices, windows in DataLoader(data, batch_sampler=sampler):
            began = time.monotonic()
            epoch, passed, leaves = session.epoch, sampler.passes, bool(asked_to_leave)
            if leaves:
                elastic.leave()
            loss = step(model, optimizer, windows, learning_rate(RATE, min(session.step, total), total))
            history.step(model, optimizer.last, loss=loss, **taken(optimizer.last, rw.rank(), epoch, passed, indices))
            if leaves:
                return history.write("left", step=session.step)
            time.sleep(max(0.0, began + PACE - time.monotonic()))
    return history.write("end", step=session.step)


def main():
    arguments = parse_arguments()
    signal.signal(signal.SIGUSR1, lambda *_: asked_to_leave.append(True))
    torch.set_num_threads(1)  # the ranks share the cores
    torch.manual_seed(1)
    text, letters = read(TEXT)
    data, model = windows_of(text, arguments.windows), Characters(letters, HIDDEN)
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    rw.init()
    history = History(arguments.history)
    while not pathlib.Path(arguments.history + ".gate").exists():
        time.sleep(LOOK)
    optimizer = rw.DistributedOptimizer(optimizer, model.named_parameters(), DENSITY, momentum_correction=MOMENTUM,
                                        route="sparse")
    rw.broadcast_parameters(model.state_dict())
    train(model, optimizer, data, arguments, history)
    rw.shutdown()


if __name__ == "__main__":
    sys.exit(main())
