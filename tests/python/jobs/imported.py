"""Goes on from an imported checkpoint, for two steps. argv: FILE.pt with the model's state_dict that it must begin
with, the step, the width of the model's first layer, 600 where it was made; then a file for the state_dict in the
end. Without it a checkpoint is saved."""

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
session = optimizer.session
replayed = session.replays
assert rw.resume(model, optimizer) is None
assert session.resumed and session.step == int(sys.argv[2]), session.step
wanted = torch.load(sys.argv[1])["model"]
found = dict(model.named_parameters()) if replayed else model.state_dict()  # buffers are not replayed
assert all(torch.equal(value, wanted[name]) for name, value in found.items())
for step in range(2):
    optimizer.zero_grad()
    model(torch.randn(8, 20)).square().mean().backward()
    optimizer.step()
if len(sys.argv) > 4:
    if rw.rank() == 0:
        torch.save({"model": model.state_dict()}, sys.argv[4])
else:
    rw.save(model, optimizer, {"step": 2})
    session.checkpoint_wait()
rw.shutdown()
