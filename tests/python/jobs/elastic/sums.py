"""Horovod's op=Sum in an elastic job: the sum over the ranks, whatever number of samples each has."""

import torch

import ringwood.horovod as hvd
import ringwood.torch as rw

torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Linear(4, 1, bias=False)
hvd.init()
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters(), op=hvd.Sum)
hvd.broadcast_parameters(model.state_dict(), 0)
sampler = rw.Sampler(24, 7, seed=1)  # 3 and 4 samples a step, at last 1 and 2
rw.elastic(model, optimizer, sampler)
steps = 0
for batch in sampler:
    assert len(batch) == sampler.weight
    optimizer.zero_grad()
    (model(torch.ones(len(batch), 4)).mean() * (1 + hvd.rank())).backward()
    torch.testing.assert_close(model.weight.grad, torch.full((1, 4), 3.0))
    optimizer.step()
    steps += 1
assert steps == 4 and sampler.passes == 1
rw.shutdown()
