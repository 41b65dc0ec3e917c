"""What local steps exchange: of each parameter that is trained its difference from the outer one, dense or sparse."""

import os

import torch

from ..content import refuse_part
from ..errors import InvalidError
from ..slot import is_empty

LEAST_SPARSE = 4096  # elements; a smaller tensor, or one of less than two dimensions, is dense


def trained(model, optimizer):
    """[(name, parameter)] that the optimizer updates, in the model's order; each has a name and elements."""
    if not isinstance(model, torch.nn.Module):
        raise InvalidError(f"the model of LocalSteps is a {type(model).__name__}: pass the model itself")
    for name, parameter in model.named_parameters():
        refuse_part(name, parameter)
        if torch.nn.parameter.is_lazy(parameter) or parameter.is_meta:
            raise InvalidError(f'the parameter "{name}" of a lazy module, or on the device "meta", has no values yet: run a batch '
                               "through the model first, or model.to_empty(device=…)")
    updated = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad and not is_empty(p)}
    named = [(name, p) for name, p in model.named_parameters() if id(p) in updated]
    if len(named) < len(updated):
        raise InvalidError(f"{len(updated) - len(named)} parameter(s) of the optimizer are not the model's: LocalSteps takes "
                           "the model that the optimizer trains, and one optimizer")
    if not named:
        raise InvalidError("the optimizer has no parameters of the model")
    for name, parameter in named:
        if not parameter.is_floating_point():
            raise InvalidError(f'the parameter "{name}" is {parameter.dtype}: LocalSteps exchanges differences of real '
                               "parameters, in float32")
    return named


def register(session, fragments, groups, density, decay):
    """Registers the differences of all fragments, which take turns. `groups`: of the optimizer, with a "density" and a
    "route" of their own, or none; `decay`: of the residuals of sparse ones. Returns [(name, its fragment's number)] and
    the names of those that are exchanged whole."""
    own = {id(p): group for group in groups for p in group["params"]}
    registered, whole, count = [], set(), len(fragments)
    for index, fragment in enumerate(fragments):
        for (name, view), (_, parameter) in zip(fragment.gradients, fragment.named):
            group = own[id(parameter)]
            route, share = _route(parameter, group.get("density", density), group.get("route"))
            turns = {"turn": (index + 1) % count, "turns": count} if count > 1 else {}
            decays = {"residual_decay": decay} if decay != 1 and route == "sparse" else {}
            session.register(name, view, route=route, density=share, momentum=0.0, **turns, **decays)
            registered.append((name, index))
            if route == "dense":
                whole.add(name)
    return registered, whole


def _route(parameter, density, route):
    """(route, density) of its differences."""
    if route not in (None, "dense", "sparse"):
        raise InvalidError(f'route="{route}" of a parameter group: "dense" or "sparse" with local steps')
    large = parameter.ndim >= 2 and parameter.numel() >= LEAST_SPARSE
    sparse = route == "sparse" or (route is None and density is not None and large)
    return ("sparse" if sparse else "dense"), (0.01 if density is None else density)


def set_options(job, codec, chunk, merge, density):
    """Options of the session that LocalSteps is given: how differences travel."""
    wanted = {"sparse_chunk": chunk, "sparse_merge": merge}
    if codec is not None:
        wanted["sparse_codec" if "/" in codec else "wire"] = codec
    if density is not None and not job.opened and not os.environ.get("RINGWOOD_SPARSE_MERGE"):
        wanted["sparse_merge"] = merge or "union"  # what a rank picked of its own training is kept
    for keyword, value in wanted.items():
        if value is None:
            continue
        if job.opened and job.option(keyword) != value:
            raise InvalidError(f"{keyword}={value!r} comes too late, the session is open: make LocalSteps before "
                               f"anything else that needs the other ranks, or call rw.init({keyword}={value!r})")
        job.set_option(keyword, value)
