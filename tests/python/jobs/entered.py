"""A job whose server nobody started: one rank alone, or ranks that torch's launchers name. A checkpoint can be made, and
the job can be left and entered again. argv: "gloo": torch's own process group stands beside; "early": rank 1 raises."""

import sys

import torch
import torch.distributed as dist

import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
if "gloo" in sys.argv:
    dist.init_process_group("gloo")
    assert (dist.get_rank(), dist.get_world_size()) == (rw.rank(), rw.size())
for _ in range(2):
    torch.manual_seed(rw.rank())
    model = torch.nn.Linear(4, 2)
    rw.broadcast_parameters(model.state_dict())
    optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(),
                                        density=0.5)
    checkpoint = rw.Checkpoint(model, optimizer, every=1)
    checkpoint.restore()
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        checkpoint.step()
        if "early" in sys.argv and rw.rank() == 1 and step == 1:
            raise RuntimeError("rank 1 has had enough")
    assert rw.allreduce(rw.rank(), op="sum") == sum(range(rw.size()))
    if "gloo" in sys.argv:
        mean = [torch.zeros(2) for _ in range(rw.size())]
        dist.all_gather(mean, model.bias.detach())
        assert all(torch.equal(each, mean[0]) for each in mean)
    rw.shutdown()
    rw.init()
print(f"rank {rw.rank()} of {rw.size()} entered twice", flush=True)
