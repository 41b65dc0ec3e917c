"""Prints how AverageAdamW knows the mean first moment of all ranks, in parts of the gradient, which is the same in every
step of every rank. argv: options of LocalSteps, in JSON."""

import json
import sys

import torch

import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
gradient = torch.linspace(0.5, 2, 50)
model = torch.nn.ParameterList([torch.zeros(50)])
inner = rw.AverageAdamW(model.parameters(), lr=0.01, weight_decay=0.1)
optimizer = rw.LocalSteps(model, inner, outer=rw.OuterSGD(lr=1.0), **json.loads(sys.argv[1]))
for _ in range(41):
    optimizer.zero_grad()
    (model[0] * gradient).sum().backward()
    optimizer.step()
known = inner.state[model[0]]["exp_avg_ranks"] / gradient
if rw.rank() == 0:
    print(f"known {known.min():.4f} {known.max():.4f}")
rw.shutdown()
