"""A second session in one process of a job that resumes: it begins with a checkpoint that lacks the first one's last
steps, and says so; or, with "saved", has all of them."""

import sys

import torch

import ringwood.torch as rw

model = torch.nn.Linear(2, 1)
inner = torch.optim.SGD(model.parameters(), lr=0.1)


def train(steps):
    rw.init()
    optimizer = rw.DistributedOptimizer(inner, model.named_parameters())
    checkpoint = rw.Checkpoint(model, optimizer, every=1)
    begin = checkpoint.restore()
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        if step == 0 or sys.argv[1:] == ["saved"]:
            checkpoint.save()
            checkpoint.wait()
    rw.shutdown()
    return begin


print("begins at", train(3), "and", train(1), flush=True)
