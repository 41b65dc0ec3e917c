"""Local steps on the model of reference.py: CHOICES (JSON) FILE. Writes each rank's parameters after every step."""

import json
import sys

import numpy as np
import torch

import reference
import ringwood.torch as rw

choices = json.loads(sys.argv[1])
rw.init()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        values = {name: torch.nn.Parameter(torch.from_numpy(value)) for name, value in reference.start().items()}
        self.embedding, self.head = values["embedding"], values["head"]
        self.layer = torch.nn.Linear(5, 6)
        self.layer.weight, self.layer.bias = values["layer.weight"], values["layer.bias"]


model = Model()
parameters = dict(model.named_parameters())
rate, momentum, nesterov = choices["outer"]
outer = rw.Nesterov(rate, momentum) if nesterov else rw.OuterSGD(rate, momentum)
optimizer = rw.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=reference.RATE), outer=outer,
                          fragments=choices["fragments"], **choices["names"])
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10 ** 6)  # takes it for an optimizer
history = []
for step in range(1, choices["steps"] + 1):
    optimizer.zero_grad()
    optimizer.weight = reference.weight_of(rw.rank(), step, choices["uneven"])
    wanted = reference.targets(rw.rank(), step)
    sum(0.5 * (parameters[name] - torch.from_numpy(wanted[name])).square().sum() for name in wanted).backward()
    optimizer.step()
    scheduler.step()
    history.append(torch.cat([parameters[name].detach().flatten() for name in reference.SHAPES]).numpy())
before = [parameter.detach().clone() for parameter in model.parameters()]
with optimizer.outer_parameters():
    theta = torch.cat([parameters[name].detach().flatten() for name in reference.SHAPES]).numpy()
assert all(torch.equal(one, two) for one, two in zip(before, model.parameters()))
names = [[name for name, _ in fragment.named] for fragment in optimizer.fragments]
np.savez(f"{sys.argv[2]}.{rw.rank()}.npz", own=np.array(history), outer=theta, fragments=json.dumps(names))
rounds = optimizer.join()
joined = {text for text in rw.gather_texts(str([p.tolist() for p in model.parameters()]))}
assert len(joined) == 1, "ranks differ after join()"
print(f"rank {rw.rank()}: {optimizer.traffic()[0]:.0f} rounds, {rounds} of them in join()", flush=True)
