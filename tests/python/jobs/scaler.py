"""A GradScaler's factor is divided out of what is sent; a NaN or Inf on one rank makes all skip. argv: the
device, or nothing: the CPU."""

import sys

import torch

import ringwood
import ringwood.torch as rw

device = (sys.argv[1:] or ["cpu"])[0]
MOMENTUM, RATE, BATCH, NORM = 0.8, 0.1, 12, 0.05
torch.set_num_threads(1)
torch.manual_seed(3)
rw.init()


def network():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)).to(device)


model, twin = network(), network()
twin.load_state_dict(model.state_dict())
# Each rank's factor is its own: in what is sent it must not show.
scaler = rw.GradScaler(device, init_scale=1024.0 * 4 ** rw.rank(), growth_interval=1000)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=RATE), model.named_parameters(),
                                    momentum_correction=MOMENTUM, route="dense", scaler=scaler)
velocity = [torch.zeros_like(p) for p in twin.parameters()]
low, high = BATCH * rw.rank() // rw.size(), BATCH * (rw.rank() + 1) // rw.size()


def loss_of(net, inputs, targets):
    with torch.autocast(device, enabled=False):
        return torch.nn.functional.mse_loss(net(inputs), targets)


def reference_step(inputs, targets, clip):
    for p in twin.parameters():
        p.grad = None
    loss_of(twin, inputs, targets).backward()
    for u, p in zip(velocity, twin.parameters()):
        u.mul_(MOMENTUM).add_(p.grad)
        p.grad.copy_(u)
    if clip:
        torch.nn.utils.clip_grad_norm_(twin.parameters(), NORM)
    with torch.no_grad():
        for p in twin.parameters():
            p -= RATE * p.grad


for step in range(5):
    inputs, targets = torch.randn(BATCH, 6).to(device), torch.randn(BATCH, 3).to(device)
    optimizer.zero_grad(set_to_none=step == 3)
    optimizer.weight = high - low
    scaler.scale(loss_of(model, inputs[low:high], targets[low:high])).backward()
    if step % 2:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), NORM)
    scaler.step(optimizer)
    scaler.update()
    assert not optimizer.last.skipped
    reference_step(inputs, targets, clip=step % 2)
    for ours, theirs in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)

# An Inf on one rank: nobody steps, everybody lowers the factor, and the next step works.
before, factor = [p.detach().clone() for p in model.parameters()], scaler.get_scale()
for bad in (float("inf"), 1.0):
    optimizer.zero_grad()
    optimizer.weight = 1
    loss = loss_of(model, inputs[:2], targets[:2]) * (bad if rw.rank() == 0 else 1)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    same = all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    assert optimizer.last.skipped == same == (bad != 1.0)
    assert scaler.get_scale() == factor / 2, (scaler.get_scale(), factor)
assert optimizer.last.step == 7

# Without the scaler the factor would stay in the weights: refused; after synchronize() it is in the
# gradients only, which is what another GradScaler needs.
optimizer.zero_grad()
scaler.scale(loss_of(model, inputs[:2], targets[:2])).backward()
try:
    optimizer.step()
    raise AssertionError("a step with scaled gradients went unnoticed")
except ringwood.RefusedError as error:
    assert "scaler.step" in str(error)
optimizer.synchronize()
theirs = torch.amp.GradScaler(device, init_scale=scaler.get_scale())
theirs.scale(torch.zeros((), device=device))
theirs.unscale_(optimizer)
theirs.step(optimizer)
rw.shutdown()

# Densely, a scaler that Ringwood knows nothing of: the factor cancels, and one rank's Inf is everyone's.
rw.init()
rw.broadcast_parameters(model.state_dict())
theirs = torch.amp.GradScaler(device, init_scale=256.0)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=RATE), model.named_parameters())
for bad in (1.0, float("inf"), 1.0):
    optimizer.zero_grad()
    before = [p.detach().clone() for p in model.parameters()]
    theirs.scale(loss_of(model, inputs[low:high], targets[low:high]) * (bad if rw.rank() == 0 else 1)).backward()
    theirs.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), NORM)
    theirs.step(optimizer)
    theirs.update()
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters())) == (bad != 1.0)
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
    assert len(set(rw.gather_texts(f"{theirs.get_scale()} {norm}"))) == 1
assert theirs.get_scale() == 128
rw.shutdown()
