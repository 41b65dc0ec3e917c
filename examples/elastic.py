"""Trains Fashion-MNIST while ranks die: the survivors go on, and every image of a pass is used exactly once.

    ringwood run --elastic -np 4 -- python examples/elastic.py
    ringwood run --elastic -np 4 -- python examples/elastic.py --history history

Kill a rank while it runs (the line of its start says its process). What an elastic job needs beside the usual loop are
the sampler, which knows what is committed, and rw.elastic. `--history FILE` makes every process write FILE.RANK.PID: a
line of JSON for each committed step with the step, the time, the epoch, the world and a digest of the weights, which
tests/chaos/check.py compares. Without the data set (Debian package dataset-fashion-mnist, or the folder that
FASHION_MNIST names), or with --synthetic, the images are random, of ten kinds.
"""

import argparse
import gzip
import os
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import ringwood.torch as rw
from ringwood.examples.history import History, path_of, taken

DATA = os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=2, help="passes over the data (default 2)")
    parser.add_argument("--batch", type=int, default=128, help="samples per step, all ranks together")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--density", type=float, default=0.01, help="share of entries sent, sparse tensors")
    parser.add_argument("--route", default="auto", choices=["auto", "dense", "sparse"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="use only the first N samples")
    parser.add_argument("--synthetic", action="store_true", help="random images instead of the data set")
    parser.add_argument("--history", metavar="FILE", help="write FILE.RANK.PID, a line for each committed step")
    return parser.parse_args()


def read_idx(name):
    """One file of the set: magic (type and dimensions), sizes big-endian, then the bytes."""
    with gzip.open(os.path.join(DATA, name)) as file:
        content = file.read()
    shape = np.frombuffer(content, ">u4", content[3], 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def synthetic(samples=6000):
    """Ten kinds of images, and noise."""
    random = torch.Generator().manual_seed(1)
    kinds = torch.randn(10, 1, 28, 28, generator=random)
    labels = torch.randint(10, (samples,), generator=random)
    return kinds[labels] + 2 * torch.randn(samples, 1, 28, 28, generator=random), labels


def load(arguments):
    if arguments.synthetic or not os.path.exists(DATA):
        images, labels = synthetic()
    else:
        images = torch.from_numpy(read_idx("train-images-idx3-ubyte.gz").copy()).unsqueeze(1)
        images = (images.float() / 255 - 0.286) / 0.353
        labels = torch.from_numpy(read_idx("train-labels-idx1-ubyte.gz").astype(np.int64))
    limit = arguments.limit or len(images)
    return TensorDataset(torch.arange(len(images))[:limit], images[:limit], labels[:limit])


def make_model(seed):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10))


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)  # the ranks share the cores
    data = load(arguments)
    model = make_model(arguments.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr, momentum=0.9)
    rw.init()
    history = History(path_of(arguments.history, rw.rank()))
    optimizer = rw.DistributedOptimizer(optimizer, model.named_parameters(), density=arguments.density,
                                        route=arguments.route)
    rw.broadcast_parameters(model.state_dict())
    sampler = rw.Sampler(data, arguments.batch, arguments.seed)
    rw.elastic(model, optimizer, sampler)
    session = optimizer.session
    history.opened(session)
    print(f"rank {rw.rank()}: process {os.getpid()}, {len(data)} images", flush=True)
    began = time.monotonic()
    while sampler.passes < arguments.epochs:
        for indices, images, labels in DataLoader(data, batch_sampler=sampler):
            epoch, passed = session.epoch, sampler.passes
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            history.step(model, optimizer.last, **taken(optimizer.last, rw.rank(), epoch, passed, indices))
            if session.rank == 0 and session.step % 50 == 0:
                print(f"step {session.step}: pass {passed + 1}, loss {loss.item():.3f}, {session.world} ranks, "
                      f"{session.step / (time.monotonic() - began):.1f} steps/s", flush=True)
    history.write("end", step=session.step)
    rw.shutdown()


if __name__ == "__main__":
    sys.exit(main())
