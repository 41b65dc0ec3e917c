"""The last step of a loop is saved once, by step(), though the end of the script saves too. A rank whose checkpoint has failed
saves that step again, with all others."""

import torch

import ringwood
import ringwood.torch as rw

rw.init()
model = torch.nn.Linear(2, 1)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
rw.broadcast_parameters(model.state_dict())
checkpoint = rw.Checkpoint(model, optimizer, every=2)


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        checkpoint.step()


def end():
    assert checkpoint.save()
    checkpoint.wait()
    return rw.session().checkpoint_progress


train(4)
assert (end().step, end().completed) == (4, 2), end()
train(1)
assert (end().step, end().completed) == (5, 3), end()
session, given = rw.session(), rw.session().checkpoint


def fails(**_):
    """Of rank 1; the other's part does not come either."""
    session.checkpoint = given
    if rw.rank() == 1:
        raise ringwood.errors.ExhaustedError("no space")


session.checkpoint = fails
train(1)
assert (end().step, end().completed) == (6, 4), end()
print("all as it should be", flush=True)
rw.shutdown()
