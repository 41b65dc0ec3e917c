"""What must be alike on all ranks and is not: parameters are refused before the first step, or told later;
buffers follow rank 0 as with DistributedDataParallel."""

import atexit
import contextlib
import io

import torch
import torch.distributed as dist
from refusals import refused
from torch.nn.parallel import DistributedDataParallel

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
if not dist.is_initialized():  # one for all scripts of a process
    dist.init_process_group("gloo")
    atexit.register(dist.destroy_process_group)


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Linear(6, 1))


def train(trained, optimizer, steps):
    random = torch.Generator().manual_seed(20 + rw.rank())
    for step in range(steps):
        optimizer.zero_grad()
        (trained(torch.randn(5, 4, generator=random)) ** 2).mean().backward()
        optimizer.step()


ours, theirs = network(1), network(1)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(ours.parameters(), 0.1), ours.named_parameters())
rw.broadcast_buffers(ours)
train(ours, optimizer, 4)
train(DistributedDataParallel(theirs), torch.optim.SGD(theirs.parameters(), 0.1), 4)
for (name, value), other in zip(ours.state_dict().items(), theirs.state_dict().values()):
    torch.testing.assert_close(value, other, rtol=1e-4, atol=1e-5, msg=lambda text: f"{name}: {text}")
ours.eval()
ours(torch.zeros(1, 4))  # nobody else does

# One rank loses its way after the start.
with torch.no_grad():
    ours[2].bias += rw.rank()
ours.train()
with contextlib.redirect_stderr(io.StringIO()) as told:
    train(ours, optimizer, 16)
assert ("1 of 6 parameters differ from rank to rank: 2.bias." in told.getvalue()) == (rw.rank() == 0), told.getvalue()
rw.shutdown()

rw.init()
forgotten = network(1 + rw.rank())
optimizer = rw.DistributedOptimizer(torch.optim.SGD(forgotten.parameters(), 0.1), forgotten.named_parameters())
refused(ringwood.RefusedError, ["4 of 6", "0.weight", "rw.broadcast_parameters(model.state_dict())"], train,
        forgotten, optimizer, 1)
rw.shutdown()

# Types, shapes and names that differ; the bytes would fit.
rw.init()


def tell(words, function, *arguments, **named):
    refused(ringwood.InvalidError, words if rw.rank() else ["another rank"], function, *arguments, **named)


half = network(1).to(torch.float16 if rw.rank() else torch.bfloat16)
tell(["0.bias", "float16 (6,) on rank 1", "bfloat16 (6,) on rank 0"], rw.broadcast_parameters, half.state_dict())
mixed = network(1).to(torch.float16 if rw.rank() else torch.float32)
tell(["the type of", "float16 on rank 1"], rw.DistributedOptimizer, torch.optim.SGD(mixed.parameters(), 0.1),
     mixed.named_parameters())
tell(["tensor 0 is \"group 0\", float16 (6, 4) on rank 1"], rw.broadcast_optimizer_state,
     torch.optim.SGD(half.parameters(), 0.1))
pairs = [(name, torch.full((2,), float(rw.rank()))) for name in "ab"]
tell(['"b"', '"a"'], rw.broadcast_parameters, pairs[::-1] if rw.rank() else pairs)
tell(["the root is 1 on rank 1 and 0 on rank 0"], rw.broadcast_parameters, pairs, root=rw.rank())
pairs[1][1].add_(5)
rw.broadcast_parameters(dict(pairs[::-1] if rw.rank() else pairs))  # in whatever order
assert [tensor[0].item() for _, tensor in pairs] == [0, 5]
refused(ringwood.InvalidError, ["pairs of a name and a tensor"], rw.broadcast_parameters, list(half.parameters()))
rw.shutdown()

rw.init()
module = torch.nn.Module()
module.forward = lambda: None
rank = float(rw.rank())
module.register_buffer("strided", (torch.arange(8.0) + rank)[::2])
module.register_buffer("expanded", torch.tensor([rank]).expand(4))
rw.broadcast_buffers(module)
module()
assert module.strided.tolist() == [0, 2, 4, 6] and module.expanded.tolist() == [0] * 4
rw.broadcast_parameters(module.state_dict(), root=1)
assert module.expanded.tolist() == [0] * 4
turned = torch.tensor([1 + 2j, rank - 3j]).conj()
odd = {"one": torch.full((2, 3), rank)[1:, 1], "none": torch.empty(3, 0)[:, :0].t(), "conjugate": turned, "negative": turned.imag}
odd["one of them"] = odd["one"].clone() + 4
assert odd["one"].stride() == (3,) and turned.is_conj() and odd["negative"].is_neg()
rw.broadcast_parameters(odd, root=1)
assert odd["one"].tolist() == [1] and odd["one of them"].tolist() == [5]
assert turned.tolist() == [1 - 2j, 1 + 3j] and odd["negative"].tolist() == [-2, 3]
module.strided = module.strided.double() if rw.rank() else torch.zeros(8)
if rw.rank():
    refused(ringwood.InvalidError, ["strided", "float64 (4,) on rank 1", "rank 0"], module)
else:
    module()
rw.shutdown()
