"""Wrong use of the optimizer gives a typed error that names what is wrong."""

import torch
from refusals import refused
from torch._dynamo import compiled_autograd

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)


rw.init()
model = torch.nn.Linear(4, 2)
rw.broadcast_parameters(model.state_dict())
inner = torch.optim.SGD(model.parameters(), lr=1.0)
refused(ringwood.InvalidError, ["not in named_parameters"], rw.DistributedOptimizer, inner,
        [("weight", model.weight)])
refused(ringwood.InvalidError, ["twice"], rw.DistributedOptimizer, inner,
        [("w", model.weight), ("w", model.bias)])
for unnamed in (list(model.parameters()), model, [("weight", model.weight), ("bias", 3)]):
    refused(ringwood.InvalidError, ["pass model.named_parameters()"], rw.DistributedOptimizer, inner, unnamed)
    refused(ringwood.InvalidError, ["pass model.named_parameters()"], rw.HookState, unnamed)
lazy = torch.nn.LazyLinear(2)
refused(ringwood.InvalidError, ["weight", "run a batch"], rw.DistributedOptimizer,
        torch.optim.SGD(lazy.parameters(), lr=1.0), lazy.named_parameters())
refused(ringwood.InvalidError, ["SparseAdam", "use Adam", "communication_hook"], rw.DistributedOptimizer,
        torch.optim.SparseAdam(model.parameters(), lr=1.0), model.named_parameters())
refused(ringwood.InvalidError, ["AverageAdamW", "rw.LocalSteps", "torch.optim.AdamW"], rw.DistributedOptimizer,
        rw.AverageAdamW(model.parameters()), model.named_parameters())
exact = torch.nn.Linear(2, 2).double()
refused(ringwood.InvalidError, ["weight", "float64", 'init_process_group("ringwood")'], rw.DistributedOptimizer,
        torch.optim.SGD(exact.parameters(), lr=1.0), exact.named_parameters())
for empty in (lazy, torch.nn.Linear(2, 2, device="meta")):
    refused(ringwood.InvalidError, ["weight", "no values yet"], rw.broadcast_parameters, empty.state_dict())
refused(ringwood.InvalidError, ["model.state_dict()"], rw.broadcast_parameters, model)
for value, word in ((None, "NoneType"), ([1.0], "list"), ("1", "str"), (torch.eye(2).to_sparse(), "sparse")):
    refused(ringwood.InvalidError, [word], rw.allreduce, value)
for words, wrong in ((["route", "dense or sparse"], {"route": "ring"}), (["density=2"], {"density": 2}),
                     (["density=0", "leave it out"], {"density": 0})):
    refused(ringwood.InvalidError, words, rw.DistributedOptimizer, inner, model.named_parameters(), **wrong)
    refused(ringwood.InvalidError, words, rw.HookState, model.named_parameters(), **wrong)
optimizer = rw.DistributedOptimizer(inner, model.named_parameters(), momentum_correction=0)
assert optimizer.leads, "one that was refused is taken for the first"
rw.init()  # does nothing
refused(ringwood.RefusedError, ["wire='int8'", "init_process_group", "RINGWOOD_WIRE"], rw.init, wire="int8")
graph = torch.nn.Module()
graph.register_buffer("edges", torch.eye(2).to_sparse())
rw.broadcast_buffers(graph)
checkpoint = rw.Checkpoint(graph, optimizer)
for call in (lambda: rw.broadcast_parameters(graph.state_dict()), lambda: graph(None), checkpoint.restore, checkpoint.save):
    refused(ringwood.InvalidError, ["edges", "sparse_coo"], call)
graph.edges = graph.edges.to_dense()
assert checkpoint.save()
checkpoint.wait()
assert rw.session().checkpoint_progress.completed == 1, "what could not be saved counted as saved"
for wrap in (lambda: rw.DistributedOptimizer(optimizer, model.named_parameters()),
             lambda: rw.LocalSteps(model, optimizer, every=2)):
    refused(ringwood.InvalidError, ["is a DistributedOptimizer already", ".inner"], wrap)
refused(ringwood.RefusedError, ["already", "sparse"], rw.HookState, model.named_parameters(), density=0.1)
refused(ringwood.RefusedError, ["without backward", "weight = 0"], optimizer.step)
gradients = torch.autograd.grad(model(torch.ones(1, 4)).sum(), list(model.parameters()))
model.weight.grad, model.bias.grad = gradients  # which no hook sees
refused(ringwood.RefusedError, ["torch.autograd.backward(parameters, gradients)"], optimizer.step)
optimizer.zero_grad()
torch.autograd.backward(list(model.parameters()), gradients)
optimizer.step()
optimizer.zero_grad()
if hasattr(compiled_autograd, "_enable"):
    with compiled_autograd._enable(torch.compile(backend="eager")):
        refused(ringwood.RefusedError, ["compiled autograd", "compiled_autograd = False"], model(torch.ones(1, 4)).sum().backward)
    optimizer.zero_grad()
with optimizer.no_sync():
    with optimizer.no_sync():
        pass
    model(torch.ones(1, 4)).sum().backward()
    assert not optimizer.averaged, "the inner context ended the outer one"
optimizer.zero_grad()
refused(ringwood.RefusedError, ["after the ranks agreed"], optimizer.add_param_group,
        {"params": [torch.nn.Parameter(torch.zeros(3))]})

inputs = torch.ones(3, 4)
model.weight.sum().backward()  # the bias is still missing
refused(ringwood.RefusedError, ["between backward", "bias"], optimizer.zero_grad)
model.bias.sum().backward()
optimizer.step()  # none of it has spoilt the session
optimizer.zero_grad()

model(inputs).sum().backward()
optimizer.weight = 2.0
refused(ringwood.RefusedError, ["2.0 after backward", "1.0"], optimizer.step)
optimizer.weight = 1.0
optimizer.step()
optimizer.zero_grad()

kept = model.bias
model.bias = torch.nn.Parameter(torch.zeros(2))  # the optimizer still has the old one
model(inputs).sum().backward()
refused(ringwood.RefusedError, ["bias"], optimizer.step)
inner.param_groups[0]["params"][1] = model.bias  # now it has one that no rank has agreed on
refused(ringwood.RefusedError, ["replaced", 'missing="skip"'], optimizer.step)
inner.param_groups[0]["params"][1] = model.bias = kept
model.bias.grad = torch.zeros(2)
refused(ringwood.RefusedError, ["bias"], optimizer.step)  # its hook never ran
optimizer.missing = "zero"
optimizer.step()
optimizer.zero_grad()

# What is on its way cannot be changed any more; nor is there a way back from it.
for change, words in ((lambda: model.weight.sum().backward(), ["weight", "on its way", "no_sync"]),
                      (lambda: (model.weight.grad.mul_(2), model.bias.sum().backward()), ["changed", "weight"]),
                      (lambda: setattr(model.weight, "grad", torch.ones(2, 4)) or model.bias.sum().backward(),
                       ["changed", "weight", "synchronize()"])):
    optimizer.missing = "error"
    model.weight.sum().backward()
    refused(ringwood.RefusedError, words, change)
    rw.shutdown()
    rw.init()
    optimizer = rw.DistributedOptimizer(inner, model.named_parameters(), missing="zero")



class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        return values.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("backward fails")


# Nor after a backward that failed on the way: every refusal says so, and what is to be done.
optimizer.missing = "error"
layers = torch.nn.functional.linear(inputs, Failing.apply(model.weight * 1), model.bias)
refused(ValueError, ["backward fails"], layers.sum().backward)
assert model.bias.grad is not None
for optimizer.missing in ("zero", "skip", "error"):
    for call in (optimizer.step, optimizer.synchronize, optimizer.zero_grad, model(inputs).sum().backward,
                 model.weight.sum().backward):
        refused(ringwood.RefusedError, ["backward pass", "failed", "End this process", "checkpoint"], call)
rw.shutdown()
rw.init()
optimizer = rw.DistributedOptimizer(inner, model.named_parameters(), missing="zero")


class Stopping:
    """A session whose steps are committed, and before anybody hears of it the user presses Ctrl-C."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        return getattr(self._session, name)

    def finish_step(self):
        self._session.finish_step()
        raise KeyboardInterrupt


optimizer._exchange = Stopping(rw.session())
refused(KeyboardInterrupt, [], model(inputs).sum().backward)
optimizer._exchange = rw.session()
for call in (optimizer.step, optimizer.synchronize, optimizer.zero_grad, model(inputs).sum().backward):
    refused(ringwood.RefusedError, ["exchange", "interrupted", "End this process", "rw.init()"], call)
rw.shutdown()
rw.init()
optimizer = rw.DistributedOptimizer(inner, model.named_parameters(), missing="zero")
with optimizer.no_sync():  # where nothing has left there is a way back
    layers = torch.nn.functional.linear(inputs, Failing.apply(model.weight * 1), model.bias)
    refused(ValueError, ["backward fails"], layers.sum().backward)
optimizer.zero_grad()
model(inputs).sum().backward()
torch.testing.assert_close(model.weight.grad, inputs.sum(0).expand(2, 4))
optimizer.step()

model.weight.data = model.weight.data.double()  # another type after the agreement
model.bias.data = model.bias.data.double()
model.weight.grad = model.bias.grad = None
refused(ringwood.InvalidError, ["float64"], model(inputs.double()).sum().backward)
rw.shutdown()
for backward in (False, True):
    if backward:
        model(inputs.double()).sum().backward()
    refused(ringwood.RefusedError, ["was closed", "rw.init()", "of the .inner"], optimizer.step)
    refused(ringwood.RefusedError, ["was closed"], optimizer.synchronize)

rw.init()
model = torch.nn.Linear(4, 2)
inner = torch.optim.SGD(model.parameters(), lr=1.0)
rw.LocalSteps(model, inner, every=2)
for beside in (lambda: rw.DistributedOptimizer(inner, model.named_parameters()),
               lambda: rw.HookState(model.named_parameters()), lambda: rw.LocalSteps(model, inner, every=2)):
    refused(ringwood.RefusedError, ["has a LocalSteps already", "one of them"], beside)
rw.shutdown()
