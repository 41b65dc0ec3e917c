"""Several optimizers in one process, each with steps of its own: a GAN, and two for one model's parameters. The
result is that of one process on the whole batch."""

import copy

import torch
from torch import nn
from torch.nn.functional import softplus

import ringwood.torch as rw

STEPS, BATCH = 6, 10
torch.set_num_threads(1)
rw.init()
low, high = BATCH * rw.rank() // (rw.size() + 1), BATCH * (rw.rank() + 1) // (rw.size() + 1)
if rw.rank() + 1 == rw.size():
    high = BATCH  # uneven shares
WHOLE, MINE = slice(None), slice(low, high)


def wrapped(part, *optimizers):
    """The optimizers as they are for the reference, distributed for this rank's part."""
    return optimizers if part is WHOLE else [
        rw.DistributedOptimizer(each, [(f"{i}.{j}", p) for j, p in enumerate(each.param_groups[0]["params"])])
        for i, each in enumerate(optimizers)]


def gan(part, make, judge):
    """As in PyTorch's tutorial: model.zero_grad(), and the discriminator gets gradients in both steps."""
    makes, judges = wrapped(part, torch.optim.Adam(make.parameters(), 0.01),
                            torch.optim.SGD(judge.parameters(), 0.1, 0.9))
    random = torch.Generator().manual_seed(6)
    for step in range(STEPS):
        real, noise = torch.randn(BATCH, 4, generator=random)[part], torch.randn(BATCH, 3, generator=random)[part]
        makes.weight = judges.weight = len(real)
        judge.zero_grad()
        (softplus(-judge(real)) + softplus(judge(make(noise).detach()))).mean().backward()
        judges.step()
        make.zero_grad()
        judge.requires_grad_(False)
        softplus(-judge(make(noise))).mean().backward()
        judge.requires_grad_(True)
        makes.step()
    return [*make.parameters(), *judge.parameters()]


def halves(part, model):
    """Matrices and the rest, one backward for both, clipped together."""
    optimizers = wrapped(part, torch.optim.SGD([p for p in model.parameters() if p.dim() == 2], 0.1),
                         torch.optim.AdamW([p for p in model.parameters() if p.dim() == 1], 0.01))
    random = torch.Generator().manual_seed(7)
    for step in range(STEPS):
        inputs = torch.randn(BATCH, 3, generator=random)[part]
        for optimizer in optimizers:
            optimizer.weight = len(inputs)
            optimizer.zero_grad()
        (model(inputs) ** 2).mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        for optimizer in optimizers:
            optimizer.step()
    return list(model.parameters())


def network(*widths):
    return nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh(), nn.Linear(widths[1], widths[2]))


for train, models in ((gan, (network(3, 8, 4), network(4, 8, 1))), (halves, (network(3, 8, 4),))):
    for model in models:
        rw.broadcast_parameters(model.state_dict())
    expected = train(WHOLE, *copy.deepcopy(models))
    for ours, theirs in zip(train(MINE, *models), expected):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    rw.shutdown()  # the hooks leave, and the next ones begin afresh
    network(2, 2, 2)(torch.zeros(1, 2)).sum().backward()
    for model in models:
        sum(p.sum() for p in model.parameters()).backward()
    rw.init()

# A NaN on one rank is skipped by all, in further optimizers too.
models = [nn.Linear(2, 1) for _ in range(2)]
optimizers = [rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
              for model in models]
rw.broadcast_parameters([(str(i), p) for i, model in enumerate(models) for p in model.parameters()])
before = models[1].weight.detach().clone()
(models[1](torch.ones(1, 2)).sum() * (float("nan") if rw.rank() == 0 else 1)).backward()
assert models[1].weight.grad.isnan().all() and models[0].weight.grad.eq(0).all()
optimizers[1].step()
assert optimizers[1].last.skipped and torch.equal(before, models[1].weight) and optimizers[0].last is None
rw.shutdown()
