"""Local steps while a rank dies and comes back: FOLDER DELAY. Rank 1 of the first start kills itself in a round.
Who comes has the others' learning rate."""

import math
import os
import pathlib
import signal
import sys

import torch

import ringwood.torch as rw

folder, delay = pathlib.Path(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(80, 70), torch.nn.ReLU(), torch.nn.Linear(70, 80))
inner = torch.optim.AdamW(model.parameters(), lr=0.01)
rw.init()
optimizer = rw.LocalSteps(model, inner, every=4, delay=delay, density=0.1)
sampler = rw.Sampler(600, 4 * 24, seed=2, ahead=1 if delay else 0)  # a step of the sampler is a round
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.99)
rw.elastic(model, optimizer, sampler, scheduler=scheduler)
rw.broadcast_parameters(model.state_dict())
data = torch.randn(600, 80, generator=torch.Generator().manual_seed(3))
session, killed = optimizer.session, folder / "killed"
steps, came, rounds = 0, session.receiving, []
average = rw.AverageAdamW(model.parameters())  # steps nothing here: it only has to know how many ranks there are
back = None  # after how many passes the killed rank was back
while True:
    if back is None and session.epoch > 1 and session.world == 3:
        back = sampler.passes
    if back is not None and sampler.passes >= max(6, back + 1):
        break  # alike on all ranks; with a pass behind its return, which is in no round of join()
    for indices in sampler:
        for batch in optimizer.batches(indices):
            if rw.rank() == 1 and steps == 30 and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            (model(data[batch]) - data[batch].flip(1)).square().mean().backward()
            optimizer.step()
            scheduler.step()
            assert average._ranks() == session.world
            assert session.step - optimizer.committed_before <= 1, "also where a rank came, or was away"
            steps += 1
            if optimizer.last and (not rounds or rounds[-1] != optimizer.last.step):
                rounds.append(optimizer.last.step)
    optimizer.settle()  # the last round of a pass may be under way
optimizer.join()
state = [p.tolist() for p in model.parameters()]
assert len(set(rw.gather_texts(str(state)))) == 1, "ranks differ after join()"
assert rounds == list(range(rounds[0], rounds[-1] + 1)), "every round was applied once"
rate = inner.param_groups[0]["lr"]
assert math.isclose(rate, 0.01 * 0.99 ** (scheduler.last_epoch // 5)), f"the learning rate is {rate}, after {scheduler.last_epoch} steps"
print(f"rank {rw.rank()}: {'came and ' if came else ''}did {steps} steps, rounds {rounds[0]} to {rounds[-1]}", flush=True)
