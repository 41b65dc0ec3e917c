"""LocalSteps resumed by PyTorch's means: state_dict() has all that a rank needs, and a new session goes on with the same
parameters."""

import io

import torch

import ringwood.torch as rw
from ringwood.agreement import broadcast_bytes

torch.set_num_threads(1)
WIDTH, RATE = 6, 0.1


def saved(*objects):
    """What torch.save would have in a file."""
    file = io.BytesIO()
    torch.save([each.state_dict() for each in objects], file)
    return file.getvalue()


def make(inner, content=None, **settings):
    """In a session of its own; `content`: what the model and the optimizer go on from."""
    rw.shutdown()
    rw.init()
    torch.manual_seed(1)
    model = torch.nn.Linear(WIDTH, WIDTH)
    optimizer = rw.LocalSteps(model, inner(model.parameters(), lr=RATE), **settings)
    if content is not None:
        for each, state in zip((model, optimizer), torch.load(io.BytesIO(content))):
            each.load_state_dict(state)
    return model, optimizer


def train(model, optimizer, steps):
    for step in steps:
        optimizer.zero_grad()
        optimizer.weight = 1.0 + rw.rank()
        inputs = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(10 * step + rw.rank()))
        (model(inputs) - inputs.flip(1)).square().sum().backward()
        optimizer.step()


def drift(model, optimizer, steps):
    """A step moves each parameter by what does not depend on where it is."""
    for _ in range(steps):
        optimizer.zero_grad()
        ((1.0 + rw.rank()) * sum(parameter.sum() for parameter in model.parameters())).backward()
        optimizer.step()


def parameters(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


model, optimizer = make(torch.optim.AdamW, every=4)
train(model, optimizer, range(10))
content = saved(model, optimizer)
state = torch.load(io.BytesIO(content))[1]
assert "exp_avg_sq" in state["state"][0] and state["param_groups"][0]["lr"] == RATE
train(model, optimizer, range(10, 17))
optimizer.join()
again, optimizer = make(torch.optim.AdamW, content, every=4)
train(again, optimizer, range(10, 17))
optimizer.join()
assert torch.equal(parameters(again), parameters(model))

# One rank's file for all, as of a Trainer: the others go on from the outer parameters, with its moments.
content = broadcast_bytes(rw.session(), content, 0)
model, optimizer = make(torch.optim.AdamW, content, every=4)
outer = optimizer.fragments[0].outer
assert torch.equal(parameters(model), outer) == (rw.rank() > 0)
assert len(set(rw.gather_texts(str(optimizer.inner.state_dict())))) == 1
train(model, optimizer, range(3))
optimizer.join()
assert torch.equal(parameters(model), outer)

# In a session that counts rounds anew fragments keep their turns, and what a round has under way is not lost: all steps
# count but those within a delay.
for settings, steps, more, lost in (({"every": 4, "fragments": 2}, 6, 5, 0), ({"every": 4, "delay": 1}, 4, 5, 1)):
    model, optimizer = make(torch.optim.SGD, outer=rw.OuterSGD(), **settings)
    start = parameters(model)
    drift(model, optimizer, steps)
    content = saved(model, optimizer)
    optimizer.join()
    model, optimizer = make(torch.optim.SGD, content, outer=rw.OuterSGD(), **settings)
    drift(model, optimizer, more)
    optimizer.join()
    moved = RATE * (steps + more - lost) * (1 + rw.size()) / 2
    torch.testing.assert_close(start - parameters(model), torch.full_like(start, moved))
rw.shutdown()
