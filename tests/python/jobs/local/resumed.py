"""Local steps with AverageAdamW and a checkpoint in the middle of a round: FOLDER STEPS SAVE AHEAD. Saves after step SAVE (0:
never) and stops there; without it goes on from the checkpoint, if there is one, to STEPS. Tells what each rank has."""

import hashlib
import sys

import torch

import ringwood.torch as rw

folder, steps, save, ahead = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "True"
torch.set_num_threads(1)
rw.init()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(80, 70), torch.nn.BatchNorm1d(70), torch.nn.ReLU(), torch.nn.Linear(70, 80))
optimizer = rw.LocalSteps(model, rw.AverageAdamW(model.parameters(), lr=0.01), every=6, delay=2, mix=0.25,
                          density=0.05, residual_decay=1.0, ahead=ahead, outer=rw.OuterSGD() if ahead else rw.Nesterov())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, gamma=0.7)
place = {"step": 0}
checkpoint = rw.Checkpoint(model, optimizer, every=10 ** 6, scheduler=scheduler, place=place)
torch.manual_seed(50 + rw.rank())
checkpoint.restore()
while place["step"] < (save or steps):
    optimizer.zero_grad()
    optimizer.weight = 8 + rw.rank()
    x = torch.randn(8 + rw.rank(), 80)
    (model(x) - x.flip(1)).square().mean().backward()
    optimizer.step()
    scheduler.step()
    place["step"] += 1
    checkpoint.step()
if save:
    assert checkpoint.save()
    checkpoint.wait()
state = [*(p.detach() for p in model.parameters()), *(fragment.outer for fragment in optimizer.fragments),
         *(torch.as_tensor(value) for each in optimizer.inner.state.values() for value in each.values()),
         *(torch.from_numpy(optimizer.session.residual(name)) for name, _ in optimizer.fragments[0].named)]
digest = hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in state)).hexdigest()
with open(f"{folder}/{rw.rank()}", "w", encoding="utf-8") as file:
    file.write(f"{digest} {optimizer.session.step}")
rounds = optimizer.join()
joined = set(rw.gather_texts(str([p.tolist() for p in model.parameters()])))
assert len(joined) == 1, "ranks differ after join()"
