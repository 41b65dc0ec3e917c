"""Parameters of TYPE on ranks of HOSTS hosts, which say what their gradients travel as."""

import os
import sys

import torch

import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
os.environ["LOCAL_WORLD_SIZE"] = str(rw.size() // int(sys.argv[2]))
model = torch.nn.Linear(30, 2).to(getattr(torch, sys.argv[1]))
model.scale = torch.nn.Parameter(torch.ones(1))
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
(model(torch.ones(1, 30, dtype=model.weight.dtype)).sum() * model.scale).backward()
optimizer.step()
rw.shutdown()
