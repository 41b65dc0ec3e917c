"""Training at random: parameters of all types and layouts, options and kinds of steps that a number chooses end where
one process ends that makes all ranks' gradients and averages them itself. FIRST COUNT of the numbers."""

import contextlib
import random
import sys
from types import SimpleNamespace

import torch
from case import OPTIMIZERS, copied, distance, initial, run, used

import ringwood.torch as rw

torch.set_num_threads(1)
LAYOUTS = ("contiguous", "contiguous", "transposed", "channels_last", "with_gaps")
TYPES = [torch.float32] * 4 + [torch.bfloat16] * 2 + [torch.float16, torch.complex64]
ERRORS = {torch.float32: 2e-5, torch.complex64: 2e-5, torch.float16: 6e-3, torch.bfloat16: 4e-2}  # of a step, relative
BF16_ERROR = 2e-2  # where the wire rounds


def case_of(number):
    choose = random.Random(number)
    generator = torch.Generator().manual_seed(number)
    only = choose.choice([None, None, torch.float32, torch.bfloat16])
    types = [only or choose.choice(TYPES) for _ in range(choose.randint(1, 8))]
    case = SimpleNamespace(number=number, initials=[initial(choose, kind, generator, LAYOUTS) for kind in types])
    case.frozen = [choose.random() < 0.1 for _ in types]
    if all(frozen or value.numel() == 0 for frozen, value in zip(case.frozen, case.initials)):
        case.initials[0], case.frozen[0] = torch.randn(4, generator=generator), False
    case.options = {"wire": choose.choice(["native"] * 4 + ["fp32", "bf16"]),
                    "planner": choose.choice(["hybrid", "hybrid", "wfbp", "mgwfbp", "oasr", "single", "exact"])}
    case.sparse = choose.random() < 0.2  # of density 1: everything is sent all the same
    case.optimizer = choose.choice(list(OPTIMIZERS))
    case.groups = choose.choice([1, 1, 2])
    case.missing = choose.choice(["error", "error", "zero", "skip"])
    # Of one backward, or of three that add up, or of two over different parameters.
    case.passes = choose.choice(["one", "one", "no_sync", "per_step", "parts"])
    if case.passes == "parts" and case.missing != "error":
        case.passes = "one"  # each pass would be exchanged
    case.weights = choose.choice(["equal", "any", "some are 0"])
    case.zeroing = choose.choice(["default", "to None", "in place", "by hand", "views"])
    case.clips = choose.random() < 0.2
    case.steps = choose.randint(1, 5)
    return case


def made(case):
    parameters = [torch.nn.Parameter(copied(value), not frozen) for value, frozen in zip(case.initials, case.frozen)]
    half = max(1, len(parameters) // 2)
    groups = [{"params": parameters}]
    if case.groups == 2 and len(parameters) > 1:
        groups = [{"params": parameters[:half]}, {"params": parameters[half:], "lr": 0.02}]
    return parameters, OPTIMIZERS[case.optimizer](groups)


def losses(case, parameters, step, rank):
    """One for each backward."""
    generator = torch.Generator().manual_seed(case.number * 1000 + step * 17 + rank)
    able = [parameter.requires_grad and parameter.numel() > 0 for parameter in parameters]
    reached = used(case.number, step, rank, able, 1.1 if case.missing == "error" else 0.6)
    passes = {"one": 1, "parts": 2}.get(case.passes, 3)
    for number in range(passes):
        terms = distance(parameters, generator)
        chosen = [term for index, term in enumerate(terms)
                  if parameters[index].requires_grad and reached[index]
                  and (case.passes != "parts" or index % 2 == number)]
        yield sum(chosen) if chosen else None


def weight_of(case, step, rank, world):
    choose = random.Random(f"{case.number} {step}")
    weights = {"equal": [1.0] * world,
               "any": [choose.choice([0.1, 0.5, 1, 3, 16]) for _ in range(world)],
               "some are 0": [choose.choice([0, 0, 1, 2.5]) for _ in range(world)]}[case.weights]
    if not any(weights):
        weights[0] = 1.0
    return weights[rank]


def clip(case, parameters):
    if case.clips:
        torch.nn.utils.clip_grad_norm_([p for p in parameters if p.dtype == torch.float32] or parameters, 1.0)


def expected(case, world):
    """The parameters after each step."""
    parameters, optimizer = made(case)
    for step in range(case.steps):
        averages = [None] * len(parameters)
        weights = [weight_of(case, step, rank, world) for rank in range(world)]
        for rank, weight in enumerate(weights):
            optimizer.zero_grad()
            for loss in losses(case, parameters, step, rank):
                if loss is not None:
                    loss.backward()
            for index, parameter in enumerate(parameters):
                if parameter.grad is not None:
                    wide = torch.complex128 if parameter.is_complex() else torch.float64
                    share = parameter.grad.to(wide) * (weight / sum(weights))
                    averages[index] = share if averages[index] is None else averages[index] + share
        for parameter, average in zip(parameters, averages):
            if average is None and parameter.requires_grad and case.missing == "zero":
                average = torch.zeros_like(parameter)
            parameter.grad = None if average is None else average.to(parameter.dtype)
        clip(case, parameters)
        optimizer.step()
        yield [copied(parameter.detach()) for parameter in parameters]


def zero(case, optimizer, parameters):
    if case.zeroing == "by hand":
        for parameter in parameters:
            parameter.grad = None
    elif case.zeroing == "default":
        optimizer.zero_grad()
    else:
        optimizer.zero_grad(set_to_none=case.zeroing == "to None")


def backward(case, optimizer, parameters, step):
    *early, last = losses(case, parameters, step, rw.rank())
    for loss in early:
        with optimizer.no_sync() if case.passes == "no_sync" else contextlib.nullcontext():
            if loss is not None:
                loss.backward()
    if last is not None:
        last.backward()


def difference(case, parameters, wanted, step):
    for index, (parameter, want) in enumerate(zip(parameters, wanted)):
        if want.numel() == 0:
            continue
        error = max(ERRORS[want.dtype], BF16_ERROR if case.options["wire"] == "bf16" else 0)
        off = float((parameter.detach() - want).abs().max())
        if not off <= error * (step + 1) * max(1.0, float(want.abs().max())):
            return f"step {step} of parameter {index} is off by {off}"
    return None


def check(case):
    rw.init(**case.options)
    parameters, inner = made(case)
    if case.zeroing == "views":
        for parameter in parameters:
            if parameter.requires_grad and parameter.numel() and parameter.dtype == torch.float32:
                parameter.grad = torch.zeros(parameter.numel() + 3)[3:].view(parameter.shape)
    optimizer = rw.DistributedOptimizer(
        inner, [(f"p{index}", parameter) for index, parameter in enumerate(parameters)], missing=case.missing,
        backward_passes_per_step=3 if case.passes == "per_step" else 1,
        **({"route": "sparse", "density": 1.0, "momentum_correction": 0} if case.sparse else {}))
    wrong = None
    for step, wanted in enumerate(expected(case, rw.size())):
        zero(case, optimizer, parameters)
        optimizer.weight = weight_of(case, step, rw.rank(), rw.size())
        backward(case, optimizer, parameters, step)
        if case.clips:
            optimizer.synchronize()
            clip(case, parameters)
        optimizer.step()
        wrong = wrong or difference(case, parameters, wanted, step)
    rw.shutdown()
    return wrong


run(sys.argv[1:], case_of, check)
