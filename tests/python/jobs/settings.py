"""Rank 1 wants another momentum correction for one tensor: its weights would drift away in silence."""

import torch

import ringwood.torch as rw

rw.init()
model = torch.nn.Linear(4, 2)
groups = [{"params": [model.weight]},
          {"params": [model.bias], "momentum_correction": 0.9 - 0.1 * rw.rank()}]
rw.DistributedOptimizer(torch.optim.SGD(groups, lr=1.0), model.named_parameters(), route="dense")
