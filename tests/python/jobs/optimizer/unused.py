"""Averages that no step uses: what the user is told of them. SCRIPT dense|sparse|int4 drops|sam: `drops` zeroes them by the
optimizer, `sam` by the model between two backwards of each step, as SAM does."""

import sys

import torch

import ringwood.torch as rw

wire = "int4" if sys.argv[1] == "int4" else None
rw.init(wire=wire)
model = torch.nn.Linear(40, 30)
rw.broadcast_parameters(model.state_dict())
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                    route="sparse" if sys.argv[1] == "sparse" else None)
for step in range(12):
    model(torch.rand(8, 40)).square().mean().backward()
    if sys.argv[2] == "drops":
        optimizer.zero_grad()
    else:
        model.zero_grad()
    model(torch.rand(8, 40)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
rw.shutdown()
