"""Goes on from an imported checkpoint. argv: FILE.pt with the model's state_dict that it must begin with, the step, and the
width of the model's first layer, 600 where it was made."""

import sys

import torch

import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
torch.manual_seed(rw.rank())
width = int(sys.argv[3])
model = torch.nn.Sequential(torch.nn.Linear(20, width), torch.nn.ReLU(), torch.nn.BatchNorm1d(width),
                            torch.nn.Linear(width, 700), torch.nn.Linear(700, 3))
model.register_buffer("seen", torch.tensor(0))
model.register_buffer("nothing", torch.empty(0, 4))
optimizer = rw.DistributedOptimizer(torch.optim.AdamW(model.parameters()), model.named_parameters())
assert rw.resume(model, optimizer) is None
assert optimizer.session.resumed and optimizer.session.step == int(sys.argv[2])
wanted = torch.load(sys.argv[1])["model"]
assert all(torch.equal(value, wanted[name]) for name, value in model.state_dict().items())
for step in range(2):
    optimizer.zero_grad()
    model(torch.randn(8, 20)).square().mean().backward()
    optimizer.step()
rw.save(model, optimizer, {"step": 2})
optimizer.session.checkpoint_wait()
rw.shutdown()
