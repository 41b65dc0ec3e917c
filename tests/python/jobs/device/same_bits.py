"""A training whose weights have the same bits wherever its tensors are. Gradients come from the host, as multiples of
2^-10 that sums of some ranks hold exactly, and the rate is a power of two. argv: device, route, wire, file for rank 0's
weights."""

import sys

import torch

import ringwood.torch as rw

device, route, wire, path = sys.argv[1:]
SHAPES, STEPS = [(40, 30), (1,), (70_001,), (3, 3, 5)], 12

rw.init(wire=wire)
draw = torch.Generator().manual_seed(rw.rank())
parameters = [torch.nn.Parameter(torch.zeros(shape, device=device)) for shape in SHAPES]
optimizer = rw.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.25),
                                    [(f"p{number}", each) for number, each in enumerate(parameters)], route=route,
                                    density=0.01, momentum_correction=0)
for step in range(STEPS):
    optimizer.zero_grad()
    gradients = [torch.randint(-4096, 4096, shape, generator=draw) / 1024 for shape in SHAPES]
    sum((each * gradient.to(device)).sum() for each, gradient in zip(parameters, gradients)).backward()
    optimizer.step()
    assert not optimizer.last.skipped
weights = torch.cat([each.detach().flatten() for each in parameters]).cpu().numpy()
assert weights.any() and len(set(rw.gather_texts(weights.tobytes().hex()))) == 1
if rw.rank() == 0:
    weights.tofile(path)
rw.shutdown()
