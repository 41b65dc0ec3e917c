"""Trains a small net under an update log and writes a history: SCRIPT HISTORY OPTIMIZER STEPS EVERY.

The history has the digest of weights and optimizer state after each step, and what a resume began with."""

import hashlib
import sys

import torch

import ringwood.torch as rw
from ringwood.state import flatten

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/examples")
from history import History, path_of  # noqa: E402

path, kind, steps, every = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def digest(model, optimizer):
    content = hashlib.blake2b(digest_size=8)
    for tree in (model.state_dict(), optimizer.inner.state_dict()):
        skeleton, tensors = flatten(tree)
        content.update(skeleton)
        for tensor in tensors.values():
            content.update(tensor.detach().numpy().tobytes())
    return content.hexdigest()


torch.set_num_threads(1)
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(60, 80), torch.nn.Tanh(), torch.nn.Linear(80, 4))
optimizer = {"sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
             "adam": lambda p: torch.optim.Adam(p, lr=0.01),
             "adamw": lambda p: torch.optim.AdamW(p, lr=0.01)}[kind](model.parameters())
rw.init()
history = History(path_of(path, rw.rank()))
optimizer = rw.DistributedOptimizer(optimizer, model.named_parameters(), density=0.05,
                                    route="sparse" if kind == "sgd" else "auto")
rw.broadcast_parameters(model.state_dict())


def clip():
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)


rw.resume(model, optimizer, before_step=clip)
session = optimizer.session
history.opened(session, digest=digest(model, optimizer))
while session.step < steps:
    step = session.step + 1
    for group in optimizer.param_groups:
        group["lr"] = 0.01 + 0.001 * (step % 7)
    random = torch.Generator().manual_seed(100 * step + rw.rank())
    optimizer.zero_grad()
    inputs = torch.randn(8, 60, generator=random)
    torch.nn.functional.cross_entropy(model(inputs), torch.randint(4, (8,), generator=random)).backward()
    clip()
    optimizer.step()
    history.write("step", step=session.step, digest=digest(model, optimizer))
    rw.save(model, optimizer, {}, every=every)
history.write("end", step=session.step)
rw.shutdown()
