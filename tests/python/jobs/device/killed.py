"""Training with dense tensors on a device (argv[1]); rank 1 is killed while the others wait for its gradients."""

import os
import signal
import sys

import torch

import ringwood.torch as rw

rw.init()
weights = torch.nn.Parameter(torch.zeros(100_000, device=sys.argv[1]))
optimizer = rw.DistributedOptimizer(torch.optim.SGD([weights], lr=0.1), [("weights", weights)], route="dense")
for step in range(6):
    optimizer.zero_grad()
    if step == 3 and rw.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    weights.sum().backward()
    optimizer.step()
