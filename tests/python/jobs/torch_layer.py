"""What ringwood.torch promises, on a model small enough to check by hand."""

import math

import torch
from refusals import refused

import ringwood
import ringwood.torch as rw


torch.set_num_threads(1)
torch.manual_seed(3)
MOMENTUM, OTHER, RATE, BATCH = 0.8, 0.5, 0.1, 12
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
model.register_parameter("spare", torch.nn.Parameter(torch.ones(4)))
twin = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
twin.load_state_dict({name: value for name, value in model.state_dict().items() if name != "spare"})
momenta = {p: MOMENTUM if i < 2 else OTHER for i, p in enumerate(twin.parameters())}
reference = torch.optim.SGD([{"params": [p], "momentum": m} for p, m in momenta.items()], lr=RATE)

refused(ringwood.RefusedError, ["init"], rw.rank)
rw.init()
refused(ringwood.InvalidError, ["twice", "momentum=0.9"], rw.DistributedOptimizer,
        torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9), model.named_parameters(),
        momentum_correction=0.9)
refused(ringwood.InvalidError, ["named_parameters"], rw.DistributedOptimizer,
        torch.optim.SGD(model.parameters(), lr=RATE), list(model.named_parameters())[:2])
groups = [{"params": [*model[0].parameters(), model.spare]},
          {"params": model[2].parameters(), "momentum_correction": OTHER}]
optimizer = rw.DistributedOptimizer(torch.optim.SGD(groups, lr=RATE), model.named_parameters(),
                                    momentum_correction=MOMENTUM, route="dense", missing="skip")
refused(ringwood.RefusedError, ["already", "sparse"], rw.DistributedOptimizer,
        torch.optim.SGD(model.parameters(), lr=RATE), model.named_parameters(), density=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3)
called = []
optimizer.register_step_post_hook(lambda *_: called.append(True))
follower = torch.optim.lr_scheduler.StepLR(reference, step_size=3)
# Of three ranks the last has no sample and the second has its part too.
low, high = [[(0, 12)], [(0, 6), (6, 12)], [(0, 4), (4, 12), (0, 0)]][rw.size() - 1][rw.rank()]


def loss_of(network, inputs, targets):
    return torch.nn.functional.mse_loss(network(inputs), targets)


refused(ringwood.RefusedError, ["without backward"], optimizer.step)
for step in range(6):
    inputs, targets = torch.randn(BATCH, 6), torch.randn(BATCH, 3)
    optimizer.zero_grad(set_to_none=step % 2 == 1)
    optimizer.weight = high - low
    if high > low:
        loss_of(model, inputs[low:high], targets[low:high]).backward()
    if step == 4:  # clipping by the norm of the average, as Horovod has it
        optimizer.synchronize()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        with optimizer.skip_synchronize():
            optimizer.step()
    else:
        optimizer.step()
    reference.zero_grad()
    loss_of(twin, inputs, targets).backward()
    if step == 4:  # the reference clips its velocity too: that is what the gradients hold here
        velocity = [m * reference.state[p]["momentum_buffer"] + p.grad for p, m in momenta.items()]
        total = torch.sqrt(sum((v * v).sum() for v in velocity))
        assert math.isclose(total.item(), norm.item(), rel_tol=1e-4), (total, norm)
        scale = min(1.0, 0.5 / (norm.item() + 1e-6))
        with torch.no_grad():
            for p, v in zip(twin.parameters(), velocity):
                p -= reference.param_groups[0]["lr"] * scale * v
                reference.state[p]["momentum_buffer"].copy_(v)
    else:
        reference.step()
    scheduler.step()
    follower.step()
    assert torch.equal(model.spare, torch.ones(4)), "no rank had a gradient for it"
    for ours, theirs in zip([p for n, p in model.named_parameters() if n != "spare"], twin.parameters()):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
assert len(called) == 6
assert optimizer.param_groups[0]["lr"] == reference.param_groups[0]["lr"]

# A NaN on one rank: all ranks skip the step and say so; the next one works.
before = [p.detach().clone() for p in model.parameters()]
optimizer.weight = 1
optimizer.zero_grad()
(loss_of(model, torch.randn(2, 6), torch.randn(2, 3))
 * (float("nan") if rw.rank() == rw.size() - 1 else 1)).backward()
optimizer.step()
assert optimizer.last.skipped and all(p.grad.isnan().all() for p in model[0].parameters())
assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
optimizer.zero_grad()
loss_of(model, torch.randn(2, 6), torch.randn(2, 3)).backward()
optimizer.step()
assert not optimizer.last.skipped

# A second pass would count the velocity twice.
optimizer.zero_grad()
loss_of(model, torch.randn(2, 6), torch.randn(2, 3)).backward()
refused(ringwood.RefusedError, ["averaged", "no_sync"], loss_of(model, inputs, targets).backward)
optimizer.zero_grad()

# Metrics: a number, and tensors of any shape, which are left as they are.
ranks, loss = list(range(rw.size())), torch.tensor(float(rw.rank()), requires_grad=True)
mean = sum(ranks) / len(ranks)
assert rw.allreduce(loss).item() == rw.allreduce(rw.rank()) == mean and loss.item() == rw.rank()
assert rw.allreduce(rw.rank() + 1, op="product") == math.factorial(rw.size())
table = torch.arange(6).view(2, 3).t() * rw.rank()
assert torch.equal(rw.allreduce(table, op="sum"), torch.arange(6).view(2, 3).t() * sum(ranks))
assert rw.allreduce(table.bfloat16(), op="max").dtype == torch.bfloat16
refused(ringwood.InvalidError, ["allreduce", "bool"], rw.allreduce, table > 0)
refused(ringwood.InvalidError, ["mean", "average"], rw.allreduce, 1.0, op="mean")

# The state of a plain optimizer travels as a whole.
plain = torch.optim.Adam(twin.parameters(), lr=0.5 + rw.rank())
if rw.rank() == 0:
    plain.zero_grad()
    loss_of(twin, torch.randn(2, 6), torch.randn(2, 3)).backward()
    plain.step()
rw.broadcast_optimizer_state(plain)
assert plain.param_groups[0]["lr"] == 0.5 and len(plain.state_dict()["state"]) == 4
moments = torch.cat([s["exp_avg"].flatten() for s in plain.state_dict()["state"].values()])
assert torch.equal(moments, torch.as_tensor(rw.session().broadcast(moments.clone(), 0)))
assert moments.abs().sum() > 0
saved = optimizer.state_dict()
assert set(saved["ringwood"]["velocity"]) == set(dict(model.named_parameters()))
optimizer.load_state_dict(saved)
rw.shutdown()
