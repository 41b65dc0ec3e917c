"""A GradScaler gives a fused optimizer its factor by attributes: behind a wrapper it must not get lost. The weights are
those of the optimizer that is not fused."""

import copy

import torch

import ringwood.torch as rw

torch.set_num_threads(1)
torch.manual_seed(3)
start = torch.nn.Linear(6, 3)


def distributed(model, optimizer, scaler):
    own = scaler if isinstance(scaler, rw.GradScaler) else None
    return rw.DistributedOptimizer(optimizer, model.named_parameters(), scaler=own)


def local(model, optimizer, scaler):
    return rw.LocalSteps(model, optimizer, every=2)


def trained(wrap, make, fused):
    rw.init()
    model, scaler = copy.deepcopy(start), make("cpu", init_scale=1024.0)
    rw.broadcast_parameters(model.state_dict())
    optimizer = wrap(model, torch.optim.SGD(model.parameters(), lr=0.1, fused=fused), scaler)
    random = torch.Generator().manual_seed(rw.rank())
    for bad in (1.0, float("inf"), 1.0, 1.0):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 6, generator=random)).square().mean()
        scaler.scale(loss * bad).backward()
        scaler.step(optimizer)
        scaler.update()
    assert scaler.get_scale() == 512
    rw.shutdown()
    return model.weight


for wrap, make in ((distributed, torch.amp.GradScaler), (distributed, rw.GradScaler), (local, torch.amp.GradScaler)):
    torch.testing.assert_close(trained(wrap, make, True), trained(wrap, make, False))
