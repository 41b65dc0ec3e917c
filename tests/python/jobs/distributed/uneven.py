"""DistributedDataParallel's join(), over Ringwood's process group and over Gloo: ranks with different numbers of batches."""

import datetime
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import ringwood.torch  # noqa: F401

signal.alarm(100)  # ends a rank that waits for ever
torch.set_num_threads(1)
dist.init_process_group("ringwood", timeout=datetime.timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()


def trained(group, batches, **settings):
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)),
                                    process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(100 + rank)
    with model.join(**settings):
        for _ in range(batches):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(torch.randn(8, 8)), torch.randint(2, (8,))).backward()
            optimizer.step()
    return [tensor.detach() for tensor in model.state_dict().values()]


both = (None, dist.new_group(backend="gloo"))
for settings in ({}, {"divide_by_initial_world_size": False}):
    ours, theirs = (trained(group, 2 + 2 * rank, **settings) for group in both)
    assert len(ours) == 9 and all(map(torch.equal, ours, theirs)), (settings, ours, theirs)
for group in both:
    try:
        trained(group, 2 + 2 * rank, throw_on_early_termination=True)
    except RuntimeError as error:
        assert "exhausted" in str(error), error
    else:
        raise AssertionError("not thrown")
print(f"rank {rank}: the same as Gloo", flush=True)
dist.destroy_process_group()
