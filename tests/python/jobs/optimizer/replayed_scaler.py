"""A GradScaler under an update log: SCRIPT FOLDER known|unknown. The first life ends by SIGKILL after the last of its steps,
which overflows as one before; the second one begins with what weights, optimizer and scaler were then. `unknown`: the
DistributedOptimizer does not know of the scaler, so a replay would take gradients with its factor."""

import json
import os
import pathlib
import signal
import sys

import torch

import ringwood.torch as rw

kept, known = pathlib.Path(sys.argv[1]) / "kept.json", sys.argv[2] == "known"
STEPS, OVERFLOWS = 9, (4, 9)
torch.set_num_threads(1)
torch.manual_seed(3)
rw.init()
model = torch.nn.Linear(6, 3)
scaler = rw.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters(),
                                    scaler=scaler if known else None)
checkpoint = rw.Checkpoint(model, optimizer, every=100, scaler=scaler)
rw.broadcast_parameters(model.state_dict())


def clip():
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)


def state():
    momentum = [optimizer.state[p].get("momentum_buffer", p).tolist() for p in model.parameters()]
    return [optimizer.session.step, [p.tolist() for p in model.parameters()], momentum, scaler.state_dict()]


if known:
    checkpoint.restore(before_step=clip)
else:
    checkpoint.restore(after_step=lambda: None)
if kept.exists():
    resumed = json.loads(json.dumps(state()))
    assert resumed == json.loads(kept.read_text()), (resumed, kept.read_text())
while rw.session().step < STEPS:
    step = rw.session().step + 1
    optimizer.zero_grad()
    loss = model(torch.full((4, 6), 0.1 * step)).square().mean() * (float("inf") if step in OVERFLOWS else 1)
    scaler.scale(loss).backward()
    if known:
        clip()
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.last.skipped == (step in OVERFLOWS)
if not kept.exists():
    kept.write_text(json.dumps(state()))
    os.kill(os.getpid(), signal.SIGKILL)
rw.shutdown()
