"""Rank 2 of three stands still until the others have ended in order. It is told so, and ends with 0 itself."""

import itertools
import os
import signal
import subprocess
import sys

import torch

import ringwood.torch as rw

ended = sys.argv[1]
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
rw.init()
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
rw.broadcast_parameters(model.state_dict())
sampler = rw.Sampler(1000, 8, seed=1)
rw.elastic(model, optimizer, sampler)
session = rw.session()
slot, awake = session.slot, False
for batch in itertools.chain.from_iterable(itertools.repeat(sampler)):
    if session.step >= 2 and slot == 2 and not awake:
        awake = True
        wakes = f"while ! [ -e {ended}.0 -a -e {ended}.1 ]; do sleep 0.05; done; kill -CONT {os.getpid()}"
        subprocess.Popen(["sh", "-c", wakes])
        os.kill(os.getpid(), signal.SIGSTOP)
    optimizer.zero_grad()
    model(torch.ones(len(batch), 4)).mean().backward()
    optimizer.step()
    if session.step >= 12:
        break
rw.shutdown()
open(f"{ended}.{slot}", "w").close()
