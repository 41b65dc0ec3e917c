"""Trains with a Checkpoint and tells what was owed before and after: FILE STEPS.

Of `whole`, a parameter whose gradients are whole numbers, sums of residuals are exact whatever their order."""

import hashlib
import json
import sys

import torch

import ringwood.torch as rw

SAMPLES, BATCH = 480, 24

torch.set_num_threads(1)
rw.init()
torch.manual_seed(100 + rw.rank())
network = torch.nn.Sequential(torch.nn.Linear(40, 100), torch.nn.BatchNorm1d(100), torch.nn.ReLU(),
                              torch.nn.Linear(100, 10))
network.whole = torch.nn.Parameter(torch.zeros(400))
optimizer = rw.DistributedOptimizer(torch.optim.SGD(network.parameters(), lr=0.125, momentum=0.5),
                                    network.named_parameters(), density=0.05, route="sparse")
session = optimizer.session
sampler = rw.Sampler(SAMPLES, BATCH, seed=4)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
progress = {"rows": 0}
checkpoint = rw.Checkpoint(network, optimizer, every=10, sampler=sampler, scheduler=scheduler, rows=progress)
rw.broadcast_parameters(network.state_dict())
first = checkpoint.restore()
data = torch.randn(SAMPLES, 40, generator=torch.Generator().manual_seed(1))
wanted = torch.randint(0, 10, (SAMPLES,), generator=torch.Generator().manual_seed(2))


def owed(name):
    return session.allreduce(torch.from_numpy(session.residual(name)).double())


def told():
    """What all ranks together have."""
    content = b"".join(p.detach().numpy().tobytes() for p in network.parameters())
    weights = set(rw.gather_texts(hashlib.sha256(content).hexdigest()))
    assert len(weights) == 1, weights
    means = rw.gather_texts(json.dumps(network[1].running_mean.tolist()))
    return {"step": session.step, "world": session.world, "weights": weights.pop(), "lr": optimizer.param_groups[0]["lr"],
            "whole": owed("whole").tolist(), "owed": owed("0.weight").tolist(), "rows": progress["rows"],
            "means": [json.loads(mean) for mean in means]}


begun, taken = told(), []
while session.step < first + int(sys.argv[2]):
    for indices in sampler:
        weight = sampler.weight
        for share in rw.gather_texts(json.dumps(indices if weight else [])):
            taken += json.loads(share)
        optimizer.zero_grad()
        optimizer.weight = weight
        loss = torch.nn.functional.cross_entropy(network(data[indices]), wanted[indices]) if len(indices) > 1 else 0
        whole = torch.arange(400.0).sub(200).mul(session.step + 1).remainder(17 + rw.rank())
        (loss + (network.whole * whole).sum() + 0 * sum(p.sum() for p in network.parameters())).backward()
        optimizer.step()
        scheduler.step()
        sampler.committed(optimizer.last)
        progress["rows"] += int(optimizer.last.total_weight)
        checkpoint.step()
        if session.step == first + int(sys.argv[2]):
            break
checkpoint.wait()
ended = told()
if rw.rank() == 0:
    with open(sys.argv[1], "w") as file:
        json.dump({"begun": begun, "ended": ended, "taken": taken}, file)
rw.shutdown()
