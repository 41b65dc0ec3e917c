"""SGD's own momentum is taken below the selection. At density 1 all is picked, so training is that of one process,
weight decay included; the dense tensor keeps SGD's momentum. Of a parameter that is named twice the first name counts."""

import torch

import ringwood.torch as rw

torch.set_num_threads(1)
torch.manual_seed(4)
rw.init()
model, twin = torch.nn.Linear(30, 8), torch.nn.Linear(30, 8)
twin.load_state_dict(model.state_dict())
rule = {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.1}
groups = [{"params": [model.weight], "route": "sparse"}, {"params": [model.bias], "route": "dense"}]
named = [*model.named_parameters(), ("tied", model.weight)]
optimizer = rw.DistributedOptimizer(torch.optim.SGD(groups, **rule), named, density=1.0)
reference = torch.optim.SGD(twin.parameters(), **rule)
assert [optimizer.session.route(name) for name in ("weight", "bias")] == ["tree", "ring"]
for step in range(6):
    inputs = torch.randn(rw.size(), 5, 30)
    optimizer.zero_grad()
    (model(inputs[rw.rank()]) ** 2).mean().backward()
    optimizer.step()
    reference.zero_grad()
    (twin(inputs.flatten(0, 1)) ** 2).mean().backward()
    reference.step()
    for ours, theirs in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
rw.shutdown()
