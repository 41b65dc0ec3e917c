"""Wrong use of local steps is refused by name, before anything asks for another rank."""

import torch

import ringwood.torch as rw
from ringwood.errors import InvalidError

rw.init()
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
others = torch.nn.Linear(2, 2)


def refused(named, *, parameters=model.parameters, model=model, **arguments):
    try:
        rw.LocalSteps(model, torch.optim.SGD(parameters(), lr=1.0), **arguments)
    except InvalidError as error:
        assert named in str(error), error
    else:
        raise AssertionError(f"{arguments} was taken")


refused("two names", every=2, sync_every=2)
refused("two names", every=2, mix=0.5, fragment_update_alpha=0.5)
refused("needs every", delay=1)
refused("mix", every=4, mix=1.0)
refused("multiple", every=4, fragments=3)
refused("at most", every=4, fragments=2, delay=3)
refused("would be all of it", every=4, delay=4)
refused("without density", every=4, residual_decay=0.5)
refused("without density", every=4, ahead=True)
refused("density=0", every=4, density=0)
refused("OuterSGD(lr=1.0)", every=4, density=0.1, ahead=True, outer=rw.Nesterov())
refused("in no module", every=4, fragments=[model[0]])
refused("share a parameter", every=4, fragments=[model, model[0]])
refused("are not the model's", every=4, parameters=others.parameters)
refused("is a list: pass the model itself", every=4, model=list(model.parameters()))
refused("is a float: rw.Nesterov()", every=4, outer=0.7)
for outer, named in ((torch.optim.LBFGS, "LBFGS evaluates its closure"), (torch.optim.SparseAdam, "SparseAdam takes sparse"),
                     (lambda tensors: 0.7, "makes a float"),
                     (lambda tensors: torch.optim.SGD(others.parameters(), lr=1.0), "of other tensors")):
    refused(named, every=4, outer=outer)
turning = torch.nn.ParameterDict({"phase": torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))})
refused('"phase" is torch.complex64', every=4, model=turning, parameters=turning.parameters)
for hollow in (torch.nn.Linear(2, 2, device="meta"), torch.nn.LazyLinear(2)):
    refused('"weight" of a lazy module, or on the device "meta"', every=4, model=hollow, parameters=hollow.parameters)
for outer in (dict(momentum=1), dict(momentum=0), dict(lr=0)):
    try:
        rw.Nesterov(**outer)
    except InvalidError:
        continue
    raise AssertionError(f"{outer} was taken")
print("all as it should be", flush=True)
