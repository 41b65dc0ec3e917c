"""Every step of an elastic job is followed by three calls of all ranks and a checkpoint, which they repeat from the first
on where one is interrupted. Rank 1 dies once between two of them; the job ends so many steps after another process has
come in its place: MARK STEPS."""

import itertools
import os
import pathlib
import signal
import sys
import time

import numpy as np
import torch
import torch._dynamo  # noqa: F401  else with the first step of an optimizer, for seconds on a busy machine

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)
mark, more = pathlib.Path(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(5)
model = torch.nn.Linear(6, 3)
rw.init()
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05), model.named_parameters())
rw.broadcast_parameters(model.state_dict())
sampler = rw.Sampler(torch.utils.data.TensorDataset(torch.arange(10**6)), batch_size=8, seed=1)
rw.elastic(model, optimizer, sampler)
session, last, repeated = optimizer.session, None, 0
batches = itertools.chain.from_iterable(itertools.repeat(sampler))  # pass after pass
while last is None or session.step < last:
    batch = next(batches)
    optimizer.zero_grad()
    if rw.rank() == 2:
        time.sleep(0.01)  # the others finish the step while it has not begun it
    model(torch.randn(len(batch), 6)).square().mean().backward()
    optimizer.step()
    while not session.receiving:
        try:
            ranks = rw.allreduce(1, op="sum")
            if rw.rank() == 1 and session.step == 20 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            assert rw.allreduce(1.0) == 1
            told = session.broadcast(np.full(100_000, session.step if session.rank == 0 else 0, np.float32))
            assert told[-1] == rw.allreduce(session.step, op="max") == session.step
            if session.rank == 0:
                time.sleep(0.03)  # the others are through with the next backward
            if session.epoch > 1:
                session.checkpoint(shared={"step": np.array([session.step])})
        except ringwood.AbortedError:
            repeated += 1
            continue
        break
    assert ranks == session.world, (ranks, session.world)
    if last is None and session.epoch > 1 and session.world == len(optimizer.last.members) == 3:
        last = session.step + more
print(f"rank {rw.rank()} of {ranks:.0f}, {repeated} repeated", flush=True)
rw.shutdown()
