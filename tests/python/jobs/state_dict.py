"""A training whose model has running statistics of each rank's own. argv: DIRECTORY, where rank R leaves RANK.pt,
the model's and the optimizer's state at the checkpoint, as torch.save writes it."""

import pathlib
import sys

import torch

import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
torch.manual_seed(rw.rank())
model = torch.nn.Sequential(torch.nn.Linear(20, 600), torch.nn.ReLU(), torch.nn.BatchNorm1d(600),
                            torch.nn.Linear(600, 700, dtype=torch.float32), torch.nn.Linear(700, 3))
model.register_buffer("seen", torch.tensor(0))
model.register_buffer("nothing", torch.empty(0, 4))
rw.broadcast_parameters(model.state_dict())
optimizer = rw.DistributedOptimizer(torch.optim.AdamW(model.parameters()), model.named_parameters())
for step in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 20)).square().mean().backward()
    optimizer.step()
    model.seen += 8
rw.save(model, optimizer, {"step": 6})
torch.save({"model": model.state_dict(), "optimizer": optimizer.inner.state_dict()},
           pathlib.Path(sys.argv[1]) / f"{rw.rank()}.pt")
optimizer.session.checkpoint_wait()
rw.shutdown()
