"""Learns to which of ten centres a noisy point belongs: plain.py for any number of processes, with checkpoints."""

import sys

import torch

import ringwood.torch as rw

rw.init()
passes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
torch.manual_seed(1)
centres = torch.randn(10, 64)
labels = torch.randint(10, (4096,))
points = centres[labels] + torch.randn(4096, 64)

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
optimizer = rw.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
sampler = rw.Sampler(labels, batch_size=256, seed=1)
checkpoint = rw.Checkpoint(model, optimizer, sampler=sampler, every=10)
rw.broadcast_parameters(model.state_dict())
checkpoint.restore()

while sampler.passes < passes:
    for batch in sampler:
        optimizer.zero_grad()
        optimizer.weight = sampler.weight
        loss = torch.nn.functional.cross_entropy(model(points[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        sampler.committed(optimizer.last)
        checkpoint.step()
    if rw.rank() == 0:
        print(f"pass {sampler.passes}: loss {loss.item():.3f}")
