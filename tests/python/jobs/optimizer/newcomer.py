"""A rank that comes to an elastic job has the others' learning rate and scale: parts of the state beside the model. Rank
1 dies once; the job ends some steps after another process has come in its place: MARK GIVEN, 1 where the optimizer is
given the scaler."""

import itertools
import os
import pathlib
import signal
import sys

import torch

import ringwood
import ringwood.torch as rw

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from refusals import refused  # noqa: E402

torch.set_num_threads(1)
mark, given = pathlib.Path(sys.argv[1]), bool(int(sys.argv[2]))
torch.manual_seed(5)
model = torch.nn.Linear(6, 3)
inner = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
rw.init()
scaler = (rw if given else torch.amp).GradScaler("cpu", init_scale=2.0**10, growth_interval=7)
optimizer = rw.DistributedOptimizer(inner, model.named_parameters(), scaler=scaler if given else None)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
rw.broadcast_parameters(model.state_dict())
sampler = rw.Sampler(torch.utils.data.TensorDataset(torch.arange(10**6)), batch_size=8, seed=1)
rw.elastic(model, optimizer, sampler, scheduler=scheduler, scaler=scaler)
buffers = rw.broadcast_buffers(model)
refused(ringwood.RefusedError, ["broadcast_buffers", "rw.elastic"], model, torch.zeros(1, 6))
buffers.remove()
session, last = optimizer.session, None
batches = itertools.chain.from_iterable(itertools.repeat(sampler))  # pass after pass
while last is None or session.step < last:
    if rw.rank() == 1 and session.step == 20 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    batch = next(batches)
    optimizer.zero_grad()
    scaler.scale(model(torch.randn(len(batch), 6)).square().mean()).backward()
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    if last is None and session.epoch > 1 and len(optimizer.last.members) == 2:
        last = session.step + 10  # the same on both, whose first step together this is
told = rw.gather_texts(f"{inner.param_groups[0]['lr']} {scaler.get_scale()} {model.weight.sum().item()!r}")
assert len(set(told)) == 1, told
if rw.rank() == 0:
    print(f"both ranks: {told[0]}", flush=True)
rw.shutdown()
