"""A rank whose parameters become NaN while all others are in join() goes on, and the others take part: FRAGMENTS DELAY."""

import sys

import torch

import ringwood.torch as rw

fragments, delay = map(int, sys.argv[1:])
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 3))
rw.init()
optimizer = rw.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.1), every=2 * fragments, fragments=fragments,
                          delay=delay, outer=rw.OuterSGD(lr=1.0))
rw.broadcast_parameters(model.state_dict())
steps = 12 * fragments if rw.rank() == 0 else 2 * fragments
for step in range(steps):
    optimizer.zero_grad()
    model(torch.ones(1, 3)).square().sum().backward()
    optimizer.step()
    if rw.rank() == 0 and step in (2 * fragments, 6 * fragments):
        with torch.no_grad():
            model[0].weight.fill_(float("nan"))
            model[1].weight.fill_(float("nan"))
optimizer.join()
assert all(p.isfinite().all() for p in model.parameters())
assert len(set(rw.gather_texts(str([p.tolist() for p in model.parameters()])))) == 1, "ranks differ after join()"
assert optimizer.session.step >= 6 * fragments, "the rounds of rank 0"
again = rw.gather_texts(str(optimizer.join()))  # nobody trains: as many rounds as there are fragments
assert again == [str(fragments)] * rw.size(), again
print(f"rank {rw.rank()}: all as it should be", flush=True)
rw.shutdown()
