"""An elastic job in which a checkpoint is always under way, slow as its rate has it. Rank 2 dies at once; the one under
which another process comes is completed. That process dies under a later one, before its part has come: the others are
told the same of it. MARK"""

import os
import pathlib
import signal
import sys

import numpy as np
import torch

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)
mark = pathlib.Path(sys.argv[1])
torch.manual_seed(5)
model = torch.nn.Linear(6, 3)
rw.init()
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.05), model.named_parameters())
rw.broadcast_parameters(model.state_dict())
sampler = rw.Sampler(torch.utils.data.TensorDataset(torch.arange(10**6)), batch_size=8, seed=1)
rw.elastic(model, optimizer, sampler)
session, batches = optimizer.session, iter(sampler)
items = {"shared": {"step": np.zeros(1)}, "per_rank": {"own": np.zeros(500_000)}}


def wait():
    try:
        session.checkpoint_wait()
        return "complete"
    except ringwood.AbortedError:
        raise
    except ringwood.RingwoodError as failure:
        return str(failure)


def step():
    optimizer.zero_grad()
    model(torch.randn(len(next(batches)), 6)).square().mean().backward()
    optimizer.step()


while session.step < 3:
    step()
if rw.rank() == 2 and not mark.exists():
    mark.touch()
    os.kill(os.getpid(), signal.SIGKILL)
outcome = None
while outcome is None:
    world, under_way = session.world, session.checkpoint_progress.under_way
    step()
    while not session.receiving:
        try:
            came = rw.allreduce(float(session.world > world), op="max")
            if came and rw.allreduce(float(session.world > world and not under_way), op="max"):
                outcome = "none was under way"
            elif came:
                outcome = wait()
            elif not rw.allreduce(float(session.checkpoint_progress.under_way), op="max"):
                session.checkpoint(**items)
        except ringwood.AbortedError:
            continue
        break
print(f"rank {rw.rank()}: the one under which a process came: {outcome}", flush=True)
rw.allreduce(1.0)  # what rank 2 waits for has ended before the others' has
session.checkpoint(**items)
rw.allreduce(1.0)
if rw.rank() == 2:
    os.kill(os.getpid(), signal.SIGKILL)
print(f"rank {rw.rank()}: the one under which a process died: {wait()}", flush=True)
session.checkpoint(shared={"step": np.zeros(1)})
print(f"rank {rw.rank()}: the next one: {wait()}", flush=True)
rw.shutdown()
