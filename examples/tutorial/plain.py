"""Learns to which of ten centres a noisy point belongs: a script for one process, as many have one."""

import sys

import torch

passes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
torch.manual_seed(1)
centres = torch.randn(10, 64)
labels = torch.randint(10, (4096,))
points = centres[labels] + torch.randn(4096, 64)

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for number in range(passes):
    for batch in torch.randperm(len(labels)).split(256):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(points[batch]), labels[batch])
        loss.backward()
        optimizer.step()
    print(f"pass {number + 1}: loss {loss.item():.3f}")
