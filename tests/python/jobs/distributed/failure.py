"""A rank that dies, or does not take part, while the others are in a collective or in DDP's backward: they get an error
that names it. Run by hand, without `ringwood run`: nobody else ends them."""

import datetime
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import BarrierOptions
from torch.nn.parallel import DistributedDataParallel

import ringwood
import ringwood.torch  # noqa: F401

how, culprit = sys.argv[1], int(sys.argv[2])
dist.init_process_group("ringwood", timeout=datetime.timedelta(seconds=120))
rank = dist.get_rank()
store = dist.distributed_c10d._get_default_store()
tensor = torch.ones(1000)
dist.all_reduce(tensor)
model = DistributedDataParallel(torch.nn.Linear(10, 10))


def impatient():
    options = BarrierOptions()
    options.timeout = datetime.timedelta(seconds=2)
    dist.group.WORLD.barrier(options).wait()


def step():
    model(torch.randn(4, 10)).sum().backward()


step()
# What a rank that is through has sent may still be on its way to the others, who would fail in this step.
store.set(f"through {rank}", "1")
if rank == culprit:
    store.wait([f"through {other}" for other in range(dist.get_world_size())], datetime.timedelta(seconds=120))
    if how == "late":
        store.wait(["over"], datetime.timedelta(seconds=120))
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
call = {"collective": lambda: dist.all_reduce(tensor), "late": impatient, "backward": step,
        "future": lambda: dist.all_reduce(tensor, async_op=True).get_future().wait()}[how]
try:
    call()
except ringwood.RingwoodError as error:
    said = error
except RuntimeError as error:  # out of C++: DDP's backward, a future
    said = error
else:
    sys.exit("no error")
assert f"rank {culprit}" in str(said), said
try:
    dist.all_reduce(tensor)
except ringwood.RingwoodError as error:
    assert f"rank {culprit}" in str(error), error
else:
    sys.exit("no error after the error")
print(f"rank {rank} heard: {type(said).__name__}: {said}", flush=True)
if how == "late":
    store.set("over", "1")
