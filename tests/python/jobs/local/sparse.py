"""Sparse differences of local steps: CODEC DECAY FRAGMENTS AHEAD. What was to be sent is applied or still owed; ahead of
the others by what it owes is a rank with AHEAD."""

import sys

import numpy as np
import torch

import ringwood.torch as rw

codec, decay, fragments, ahead = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "True"
rw.init()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(100, 90), torch.nn.ReLU(), torch.nn.Linear(90, 100))
optimizer = rw.LocalSteps(model, torch.optim.AdamW(model.parameters(), lr=0.01), every=2 * fragments,
                          outer=rw.OuterSGD(), density=64 / 4096, codec=codec, chunk=4096, residual_decay=decay,
                          fragments=fragments, ahead=ahead)
session = optimizer.session
names = [name for fragment in optimizer.fragments for name, _ in fragment.named]
assert [session.route(name) for name in names] == ["tree", "ring", "tree", "ring"], session.plan
expected = {name: torch.zeros(parameter.numel(), dtype=torch.float64) for name, parameter in model.named_parameters()}
applied = {name: values.clone() for name, values in expected.items()}
begin, finish = session.begin_step, session.finish_step


def begin_step(weight):
    """What leaves: this rank's differences times its weight, with what it owes."""
    begin(weight)
    fragment = optimizer.fragments[optimizer.schedule.fragment(session.step + 1)]
    for name, view in fragment.gradients:
        sent = view.flatten().double() * weight
        if session.route(name) == "tree":
            sent -= (1 - decay) * torch.from_numpy(session.residual(name)).double()
        expected[name] += sent


def finish_step():
    result = finish()
    for fragment in optimizer.fragments:
        for name, view in fragment.gradients:
            applied[name] += view.flatten().double() * result.total_weight / session.world
    return result


def check_parameters(fragment):
    """After its round: outer parameters, less what this rank owes where it is ahead."""
    begin = 0
    for name, parameter in fragment.named:
        start = fragment.outer[begin:begin + parameter.numel()].view(parameter.shape)
        begin += parameter.numel()
        if ahead:
            start = start - torch.from_numpy(session.residual(name)).view(parameter.shape) / (2 * fragments * (1 + rw.rank()))
        torch.testing.assert_close(parameter.detach(), start, rtol=1e-6, atol=1e-6)


session.begin_step, session.finish_step = begin_step, finish_step
torch.manual_seed(10 + rw.rank())
for step in range(12 * fragments):
    optimizer.zero_grad()
    optimizer.weight = 1 + rw.rank()
    x = torch.randn(16, 100)
    (model(x) - x.flip(1)).square().mean().backward()
    optimizer.step()
    if step % (2 * fragments) == 2 * fragments - 1:  # all fragments have the same number of rounds; the last one just ended
        check_parameters(optimizer.fragments[-1])
for name in expected:
    owed = torch.from_numpy(session.residual(name)).double()
    for values in (expected[name], applied[name], owed):
        session.allreduce(values)
    assert applied[name].abs().sum() > 0, name
    torch.testing.assert_close(applied[name] + owed, expected[name], rtol=1e-5, atol=1e-5)
    if session.route(name) == "tree":
        assert (owed != 0).sum() > 100, name
rounds, dense, sparse, whole = optimizer.traffic()
print(f"rank {rw.rank()}: {rounds:.0f} rounds, {whole / (dense + sparse):.0f} times fewer bytes, all as it should be",
      flush=True)
