"""Trains with a Checkpoint and writes a history: SCRIPT HISTORY KIND STEPS EVERY.

`sgd`: BatchNorm with statistics of each rank's own, dropout, momentum below the selection of sparse tensors. `adamw`:
dropout, a schedule of the learning rate, an average of the weights. The history has the digest of all of it after each
step, and what a resume began with."""

import hashlib
import sys

import torch
from torch import nn

import ringwood.torch as rw
from ringwood.state import flatten

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/examples")
from history import History, path_of  # noqa: E402

path, kind, steps, every = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
SAMPLES, BATCH = 1000, 32

torch.set_num_threads(1)
torch.manual_seed(3)
norm = nn.BatchNorm1d(80) if kind == "sgd" else nn.LayerNorm(80)
model = nn.Sequential(nn.Linear(60, 80), norm, nn.ReLU(), nn.Dropout(0.3), nn.Linear(80, 4))
optimizer = {"sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4),
             "adamw": lambda p: torch.optim.AdamW(p, lr=0.01)}[kind](model.parameters())
average = torch.optim.swa_utils.AveragedModel(model, avg_fn=lambda old, new, count: 0.9 * old + 0.1 * new)
data = torch.randn(SAMPLES, 60, generator=torch.Generator().manual_seed(1))
wanted = torch.randint(0, 4, (SAMPLES,), generator=torch.Generator().manual_seed(2))
rw.init()
history = History(path_of(path, rw.rank()))
sparse = {"density": 0.05, "route": "sparse"} if kind == "sgd" else {}
optimizer = rw.DistributedOptimizer(optimizer, model.named_parameters(), **sparse)
session = optimizer.session
sampler = rw.Sampler(SAMPLES, BATCH, seed=5)
scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 50)
checkpoint = rw.Checkpoint(model, optimizer, every=every, sampler=sampler, scheduler=scheduler, average=average)


def digest():
    content = hashlib.blake2b(digest_size=8)
    for tree in (model.state_dict(), optimizer.inner.state_dict(), average.state_dict(), scheduler.state_dict()):
        skeleton, tensors = flatten(tree)
        content.update(skeleton)
        for tensor in tensors.values():
            content.update(tensor.detach().numpy().tobytes())
    for name, _ in model.named_parameters():
        content.update(session.residual(name).tobytes())
    return content.hexdigest()


torch.manual_seed(100 + rw.rank())  # dropout of each rank's own
rw.broadcast_parameters(model.state_dict())
checkpoint.restore()
history.opened(session, digest=digest())
while session.step < steps:
    for indices in sampler:
        optimizer.zero_grad()
        optimizer.weight = sampler.weight
        nn.functional.cross_entropy(model(data[indices]), wanted[indices]).backward()
        optimizer.step()
        scheduler.step()
        sampler.committed(optimizer.last)
        average.update_parameters(model)
        history.write("step", step=session.step, digest=digest())
        checkpoint.step()
        if session.step >= steps:
            break
history.write("end", step=session.step)
rw.shutdown()
