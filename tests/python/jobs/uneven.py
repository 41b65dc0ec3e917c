"""Rank r has r + 2 batches; the ranks join() afterwards, and end with the weights of one process that takes each step
with the batches that there are. No gradient is left over for another epoch. So it is with the hook in PyTorch's join()."""

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ringwood.torch as rw

rw.init()


def make():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    inner = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
    return model, inner, torch.optim.lr_scheduler.StepLR(inner, 1, 0.8)


def batch(rank, step):
    random = torch.Generator().manual_seed(100 * rank + step)
    return torch.randn(4 + rank, 6, generator=random), torch.randn(4 + rank, 3, generator=random)


def loss_of(model, inputs, targets):
    return nn.functional.mse_loss(model(inputs), targets)


def steps_of(rank):
    return rank + 2


model, inner, scheduler = make()
rw.broadcast_parameters(model.state_dict())
optimizer = rw.DistributedOptimizer(inner, model.named_parameters())
for step in range(steps_of(rw.rank())):
    inputs, targets = batch(rw.rank(), step)
    optimizer.weight = len(inputs)
    optimizer.zero_grad()
    loss_of(model, inputs, targets).backward()
    optimizer.step()
    scheduler.step()
longest = steps_of(rw.size() - 1)
assert optimizer.join(after_step=scheduler.step) == longest - steps_of(rw.rank())
assert optimizer.last.skipped
assert not any(parameter.grad.any() for parameter in model.parameters()), "the next backward adds to what join() left"
rw.shutdown()

torch.distributed.init_process_group("gloo")
rw.init()
hooked, inner, scheduler = make()
state = rw.HookState(hooked.named_parameters())
trained = DistributedDataParallel(hooked)
trained.register_comm_hook(state, rw.communication_hook)
with trained.join():
    for step in range(steps_of(rw.rank())):
        inputs, targets = batch(rw.rank(), step)
        state.weight = len(inputs)
        inner.zero_grad()
        loss_of(trained, inputs, targets).backward()
        inner.step()
        scheduler.step()
    state.weight = 0

alone, inner, scheduler = make()
for step in range(longest):
    batches = [batch(rank, step) for rank in range(rw.size()) if step < steps_of(rank)]
    inner.zero_grad()
    loss_of(alone, *(torch.cat(parts) for parts in zip(*batches))).backward()
    inner.step()
    scheduler.step()
for joined in (model, hooked):
    for mine, its in zip(joined.parameters(), alone.parameters()):
        torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-6)
torch.distributed.destroy_process_group()
