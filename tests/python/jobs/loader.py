"""A DataLoader that forks workers in every pass, while a session is open, is normal use."""

import torch
from torch.utils.data import DataLoader, TensorDataset

import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
model = torch.nn.Linear(5, 1)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
rw.broadcast_parameters(model.state_dict())
loader = DataLoader(TensorDataset(torch.randn(12, 5)), batch_size=4, num_workers=2)
for epoch in range(2):
    for (rows,) in loader:
        optimizer.zero_grad()
        model(rows).mean().backward()
        optimizer.step()
assert optimizer.session.step == 6
rw.shutdown()
