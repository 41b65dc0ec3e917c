"""Training with gradients on a device equals one process on the CPU: gradients that stay, that autograd makes
anew, that gather over passes, that another stream makes. argv: device, route, what each rank says for
device_tensors (comma-separated, the last one for the rest), file for rank 0's weights."""

import sys

import torch
from refusals import refused

import ringwood
import ringwood.torch as rw

device, route, choices, path = sys.argv[1:]
STEPS, BATCH, MOMENTUM, RATE = 9, 24, 0.8, 0.1

torch.set_num_threads(1)
torch.manual_seed(7)
rw.init()


def network():
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8))


twin = network()  # in one process, on the CPU
model = network().to(device)
model.load_state_dict(twin.state_dict())
reference = torch.optim.SGD(twin.parameters(), lr=RATE, momentum=MOMENTUM)
settings = {"density": 1.0, "momentum_correction": MOMENTUM, "route": route}
if device == "cuda":
    model.register_parameter("host", torch.nn.Parameter(torch.ones(3)))  # not on the device
    refused(ringwood.RefusedError, ["not all on one CUDA device", "cpu"], rw.DistributedOptimizer,
            torch.optim.SGD(model.parameters(), lr=RATE), model.named_parameters(), **settings,
            device_tensors="in_place")
    del model.host
refused(ringwood.InvalidError, ["choose auto"], rw.DistributedOptimizer,
        torch.optim.SGD(model.parameters(), lr=RATE), model.named_parameters(), device_tensors="where")
mine = choices.split(",")[min(rw.rank(), choices.count(","))]
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=RATE), model.named_parameters(),
                                    **settings, device_tensors=mine)
low, high = BATCH * rw.rank() // rw.size(), BATCH * (rw.rank() + 1) // rw.size()
other_stream = torch.cuda.Stream() if device == "cuda" else None


def loss_of(net, inputs, targets):
    return ((net(inputs) - targets) ** 2).sum() / BATCH


def backward(inputs, targets, samples):
    """`samples` of this rank; the sum over ranks is that of the batch, the average that of its mean."""
    inputs, targets = inputs[samples].to(device), targets[samples].to(device)
    (loss_of(model, inputs, targets) * BATCH / (high - low)).backward()


def step(number, inputs, targets):
    optimizer.zero_grad(set_to_none=number % 3 == 1)
    optimizer.weight = high - low
    if number == 3:  # a pass held back comes along with the next
        middle = (low + high) // 2
        with optimizer.no_sync():
            backward(inputs, targets, slice(low, middle))
        backward(inputs, targets, slice(middle, high))
    else:
        backward(inputs, targets, slice(low, high))
    if number == 6:  # for clipping, say
        optimizer.synchronize()
    optimizer.step()


def step_elsewhere(number, inputs, targets):
    """The whole step on another stream than the one that the optimizer was made on."""
    if other_stream is None:
        return step(number, inputs, targets)
    other_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other_stream):
        torch.cuda._sleep(5_000_000)  # cycles: what does not wait for this stream comes too early
        step(number, inputs, targets)
    torch.cuda.current_stream().wait_stream(other_stream)


for number in range(STEPS):
    inputs, targets = torch.randn(BATCH, 20), torch.randn(BATCH, 8)
    (step_elsewhere if number in (4, 5, 7) else step)(number, inputs, targets)
    assert not optimizer.last.skipped and optimizer.last.total_weight == BATCH
    reference.zero_grad()
    loss_of(twin, inputs, targets).backward()
    reference.step()
    for ours, theirs in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)

# A NaN on one rank: all skip, and the next step works.
before = [p.detach().clone() for p in model.parameters()]
for bad in (float("nan"), 1.0):
    optimizer.zero_grad()
    (model(torch.ones(1, 20, device=device)).sum() * (bad if rw.rank() == 0 else 1)).backward()
    optimizer.step()
    same = all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    assert optimizer.last.skipped == same == (bad != 1.0)

weights = torch.cat([p.detach().flatten() for p in model.parameters()]).cpu().numpy()
ranks = rw.gather_texts(weights.tobytes().hex())
assert len(set(ranks)) == 1, "the ranks have different weights"
if rw.rank() == 0:
    weights.tofile(path)
rw.shutdown()
