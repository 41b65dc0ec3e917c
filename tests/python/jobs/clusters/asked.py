"""Trains until it is asked to end, or for so many steps. argv: FOLDER, STEPS, and "elastic" for an elastic job. Rank 0
prints the digest of the weights after the last one, each rank writes its process number to FOLDER after its first steps."""

import hashlib
import os
import pathlib
import sys

import torch

import ringwood.torch as rw

folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
rw.init()
torch.manual_seed(rw.rank())
model = torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 5))
optimizer = rw.DistributedOptimizer(torch.optim.AdamW(model.parameters()), named_parameters=model.named_parameters())
if len(sys.argv) > 3:
    rw.elastic(model, optimizer, rw.Sampler(10**9, 2))
checkpoint = rw.Checkpoint(model, optimizer, every=10**9)
rw.broadcast_parameters(model.state_dict())
start = checkpoint.restore()
if rw.rank() == 0:
    print(f"begins at step {start}", flush=True)
for step in range(start, steps):
    optimizer.zero_grad()
    model(torch.randn(8, 20, generator=torch.Generator().manual_seed(step * rw.size() + rw.rank()))).square().mean().backward()
    optimizer.step()
    checkpoint.step()
    if step == start + 5:
        (folder / f"there.{rw.rank()}").write_text(str(os.getpid()))
if rw.rank() == 0:
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    print(f"digest {digest}", flush=True)
rw.shutdown()
