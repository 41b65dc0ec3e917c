"""Trains an elastic job with sparse gradients of whole numbers until it is asked to end. argv: FOLDER, to which each
process writes after every step, in a file named by its rank and number, what it has given, what all have applied since
it came, and what it still owes."""

import json
import os
import pathlib
import sys

import torch

import ringwood.torch as rw

folder = pathlib.Path(sys.argv[1])
torch.set_num_threads(1)
rw.init()
weights = torch.nn.Parameter(torch.zeros(400))
model = torch.nn.ParameterList([weights])
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters(), density=0.05,
                                    route="sparse")
sampler = rw.Sampler(10**9, 2)
rw.elastic(model, optimizer, sampler)
checkpoint = rw.Checkpoint(model, optimizer, every=10**9)
checkpoint.restore()
session = optimizer.session
mine = folder / f"{session.slot}.{os.getpid()}"
given = applied = 0.0
while True:
    random = torch.Generator().manual_seed(1000 * session.step + session.slot)
    gradient = torch.randint(-10, 11, (400,), generator=random).float()
    before, weight = weights.detach().clone(), sampler.weight
    optimizer.zero_grad()
    (weights * gradient).sum().backward()
    optimizer.step()
    last = optimizer.last
    if last.received:
        given = applied = 0.0  # before this process came
    else:
        applied += float((before - weights.detach()).double().sum()) * last.total_weight
        given += float(gradient.double().sum()) * weight * (session.slot in last.contributors)
    owed = float(session.residual("0").astype("float64").sum())
    written = mine.with_suffix(".new")
    written.write_text(json.dumps({"step": session.step, "given": given, "applied": applied, "owed": owed}))
    written.replace(mine)
    checkpoint.step()
