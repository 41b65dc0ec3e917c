"""Checkpoints of local steps: DELAY, of 3 steps a round. Whatever ended a round, a checkpoint of it is due once, and to save
it once more is no error."""

import sys

import torch

import ringwood.torch as rw

delay = int(sys.argv[1])
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Linear(5, 5)
rw.init()
optimizer = rw.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.01), every=3, delay=delay, mix=0.5)
checkpoint = rw.Checkpoint(model, optimizer, every=1)
rw.broadcast_parameters(model.state_dict())
saved = []


def train():
    optimizer.zero_grad()
    model(torch.ones(2, 5)).square().mean().backward()
    optimizer.step()


def save():
    assert checkpoint.save()
    checkpoint.wait()
    return rw.session().checkpoint_progress


for step in range(1, 31):
    train()
    if step in (9, 18):
        optimizer.settle()
    elif checkpoint.step():
        saved.append(optimizer.session.step)
checkpoint.wait()
rounds = list(range(1, optimizer.session.step + 1)) if delay in (1, 2) else sorted(set(saved))
assert saved == rounds and len(saved) > 3, f"saved {saved}"
complete = save()  # the round that is under way, if one is
assert complete.step == optimizer.session.step == 10 and complete == save(), complete
train()
assert complete == save(), complete
print("all as it should be", flush=True)
