"""The process that was first started as rank RANK dies between two calls of the start, after WHERE. The job ends some steps
after all are together: RANK WHERE. Every process says how often its rank had been started before."""

import itertools
import os
import signal
import sys

import torch

import ringwood.torch as rw

start = int(os.environ["RINGWOOD_RESTART"])
torch.set_num_threads(1)


def reached(where):
    if [str(rw.rank()), where] == sys.argv[1:] and start == 0:
        os.kill(os.getpid(), signal.SIGKILL)


rw.init()
torch.manual_seed(rw.rank() + 10 * start)
model = torch.nn.Linear(4, 1)
inner = torch.optim.SGD(model.parameters(), lr=0.01)
session = rw.session()
reached("session")
optimizer = rw.DistributedOptimizer(inner, model.named_parameters())
reached("optimizer")
rw.broadcast_parameters(model.state_dict())
rw.broadcast_optimizer_state(inner)
reached("broadcast")
sampler = rw.Sampler(1000, 8, 1)
rw.elastic(model, optimizer, sampler)
last = None
for batch in itertools.chain.from_iterable(itertools.repeat(sampler)):
    optimizer.zero_grad()
    model(torch.ones(len(batch), 4)).mean().backward()
    optimizer.step()
    if last is None and len(optimizer.last.members) == 3:
        last = session.step + 3
    if session.step == last:
        break
assert len(set(rw.gather_texts(str(model.weight.tolist())))) == 1
print(f"rank {rw.rank()}, started {start} times before", flush=True)
rw.shutdown()
