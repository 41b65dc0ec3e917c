"""A rank exchanges fewer backward passes in a step than the others: all are refused, by the name of who differs, and
nothing of the passes that do not belong together is applied."""

import torch

import ringwood
import ringwood.torch as rw

rw.init()
model = torch.nn.Linear(4, 2)
rw.broadcast_parameters(model.state_dict())
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
inputs = torch.arange(4.0) + rw.rank()


def step(passes):
    optimizer.zero_grad()
    for _ in range(passes):
        model(inputs).sum().backward()
    optimizer.step()


for passes in (2, 1, 3):
    step(passes)
before = model.weight.clone()
try:
    step(1 if rw.rank() == 1 else 2)
    step(1)  # where rank 1 meets the others' second pass
except ringwood.RefusedError as error:
    ranks = {"pass 1": "rank 1 ", "pass 2": "rank 0 "}
    assert all(f"{number} on {rank}" in str(error) for number, rank in ranks.items()), error
else:
    raise AssertionError("gradients of different steps were averaged")
# Rank 1 has done its step, as the others had averaged the same; of the mixed one there is nothing anywhere.
gradient = sum(torch.arange(4.0) + rank for rank in range(rw.size())) / rw.size()
expected = before - gradient if rw.rank() == 1 else before
torch.testing.assert_close(model.weight, expected)
rw.shutdown()
