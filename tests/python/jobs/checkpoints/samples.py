"""Trains one pass and writes down which samples each step has used, one file a process: FOLDER. All ranks of the first
start die after step 5; the newest checkpoint is that of step 3."""

import os
import pathlib
import signal
import sys

import numpy as np
import torch

import ringwood.torch as rw

torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
rw.init()
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())
sampler = rw.Sampler(120, 12, seed=1)
checkpoint = rw.Checkpoint(model, optimizer, sampler=sampler, every=3)
rw.broadcast_parameters(model.state_dict())
checkpoint.restore()
session = optimizer.session
assert session.step == (5 if session.resumed else 0)
with open(pathlib.Path(sys.argv[1]) / f"used.{os.getpid()}", "w", encoding="utf-8", buffering=1) as used:
    for batch in sampler:
        optimizer.weight = sampler.weight
        optimizer.zero_grad()
        model(torch.ones(len(batch), 4)).mean().backward()
        optimizer.step()
        if optimizer.weight:
            used.write(" ".join(map(str, batch)) + "\n")
        sampler.committed(optimizer.last)
        checkpoint.step()
        if session.step == 5 and not session.resumed:
            checkpoint.wait()
            session.allreduce(np.zeros(1))  # all have written
            os.kill(os.getpid(), signal.SIGKILL)
assert sampler.passes == 1
rw.shutdown()
