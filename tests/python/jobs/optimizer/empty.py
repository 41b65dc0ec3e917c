"""Parameters without elements: nothing of them travels, and a checkpoint has them, whichever ranks have used them. KIND
of the optimizer."""

import sys

import torch

import ringwood.torch as rw

torch.set_num_threads(1)


def model_of():
    model = torch.nn.Linear(3, 2)
    model.nothing = torch.nn.Parameter(torch.empty(0))
    model.rows = torch.nn.Parameter(torch.empty(0, 4))
    return model


def distributed(model):
    return rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters())


def local(model):
    return rw.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), every=1)


def trained(make, begins):
    rw.init()
    model = model_of()
    optimizer = make(model)
    checkpoint = rw.Checkpoint(model, optimizer, every=2)
    rw.broadcast_parameters(model.state_dict())
    assert checkpoint.restore() == begins, rw.session().step
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(torch.ones(1, 3)).sum()
        (loss + model.nothing.sum() if rw.rank() == 0 else loss).backward()
        optimizer.step()
        if make is distributed:
            given = [parameter.grad is not None for parameter in model.parameters()]
            assert all(given), f"a norm of all gradients would have other bits than that of the other rank: {given}"
        checkpoint.step()
    checkpoint.wait()
    assert "nothing" not in rw.session().plan and "weight" in rw.session().plan, rw.session().plan
    rw.shutdown()


for begins in (0, 4):
    trained({"distributed": distributed, "local": local}[sys.argv[1]], begins)
print("all as it should be", flush=True)
