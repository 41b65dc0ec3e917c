"""Checkpoints of local steps: DELAY, of 3 steps a round. Whatever ended a round, a checkpoint of it is due once."""

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
for step in range(1, 31):
    optimizer.zero_grad()
    model(torch.ones(2, 5)).square().mean().backward()
    optimizer.step()
    if step in (9, 18):
        optimizer.settle()
    elif checkpoint.step():
        saved.append(optimizer.session.step)
checkpoint.wait()
rounds = list(range(1, optimizer.session.step + 1)) if delay < 3 else sorted(set(saved))
assert saved == rounds and len(saved) > 3, f"saved {saved}"
print("all as it should be", flush=True)
