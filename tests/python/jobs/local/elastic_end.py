"""A rank that comes to local steps whose last rounds are under way: FOLDER FRAGMENTS. Rank 1 of the first start kills
itself before join(); the others bring samples to their rounds there until it is back, with the last of them."""

import os
import pathlib
import signal
import sys
import time

import torch

import ringwood.torch as rw

folder, fragments = pathlib.Path(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(12, 10), torch.nn.ReLU(), torch.nn.Linear(10, 12))
inner = torch.optim.AdamW(model.parameters(), lr=0.01)
rw.init()
optimizer = rw.LocalSteps(model, inner, every=2 * fragments, fragments=fragments)
sampler = rw.Sampler(96, 24, seed=2)
rw.elastic(model, optimizer, sampler)
rw.broadcast_parameters(model.state_dict())
data = torch.randn(96, 12, generator=torch.Generator().manual_seed(3))
came, killed = optimizer.session.receiving, folder / "killed"
while sampler.passes < 2:
    for indices in sampler:
        for batch in optimizer.batches(indices):
            optimizer.zero_grad()
            (model(data[batch]) - data[batch].flip(1)).square().mean().backward()
            optimizer.step()
if rw.rank() == 1 and not killed.exists():
    killed.touch()
    os.kill(os.getpid(), signal.SIGKILL)
start = optimizer._start


def start_with_samples(number):
    if optimizer.session.epoch == 1 or optimizer.session.world < 3:
        time.sleep(0.02)
        optimizer.fragments[optimizer.schedule.fragment(number)].weight = 1.0
    start(number)


optimizer._start = start_with_samples
rounds = optimizer.join()
state = [p.tolist() for p in model.parameters()]
assert len(set(rw.gather_texts(str(state)))) == 1, "ranks differ after join()"
print(f"rank {rw.rank()}: {'came, ' if came else ''}joined in {'more' if rounds > fragments else rounds} rounds", flush=True)
