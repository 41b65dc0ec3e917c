"""What the jobs in this folder train: parameters and optimizers that a number chooses."""

import random
from types import SimpleNamespace

import torch

SHAPES = [(), (1,), (3,), (7, 5), (2, 3, 4), (64, 33), (8, 4, 3, 3), (1000,), (300, 17), (0,), (5, 0)]
OPTIMIZERS = {"sgd": lambda given: torch.optim.SGD(given, lr=0.1, weight_decay=0.01),
              "momentum": lambda given: torch.optim.SGD(given, lr=0.05, momentum=0.9),
              "nesterov": lambda given: torch.optim.SGD(given, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1),
              "adamw": lambda given: torch.optim.AdamW(given, lr=0.01, eps=0.1),
              "amsgrad": lambda given: torch.optim.Adam(given, lr=0.01, eps=0.1, weight_decay=0.01, amsgrad=True),
              "rmsprop": lambda given: torch.optim.RMSprop(given, lr=0.01, eps=0.1, momentum=0.5),
              "adagrad": lambda given: torch.optim.Adagrad(given, lr=0.05, eps=0.1)}

SPARSE = [{}, {}, {"density": 0.05}, {"density": 0.1, "route": "sparse"}]
# `threshold` is left out: its threshold is no part of a checkpoint (docs/sparse.md).
SOMETIMES = {"sparse_codec": ["block16/fp32", "rice/fp32", "block16/bf16", "rice/int8", "block16/int4"],
             "sparse_merge": ["gtopk", "union", "exact"], "sparse_keep": [1.0, 2.5], "momentum_masking": [True, False],
             "warmup_steps": [2, 4, 20], "clip_norm": [1.0]}


def exchange(choose):
    """Options of a session: how gradients travel."""
    options = {"wire": choose.choice(["native", "native", "fp32", "bf16", "int8", "int4", "auto"]),
               "planner": choose.choice(["hybrid", "hybrid", "single", "wfbp", "mgwfbp", "exact", "lags", "omgs"])}
    options |= {name: choose.choice(values) for name, values in SOMETIMES.items() if choose.random() < 0.3}
    return options | choose.choice([{}, {}, {"sparse_chunk": 64}, {"sparse_method": "gaussian"}])


def normal(shape, dtype, generator):
    """In the generator's order whatever the type: PyTorch draws complex numbers only as such."""
    drawn = torch.complex64 if dtype.is_complex else torch.float32
    return torch.randn(shape, generator=generator, dtype=drawn).to(dtype)


def initial(choose, dtype, generator, layouts=("contiguous",)):
    """A parameter's first value. `layouts`: how it may lie in memory."""
    shape = choose.choice(SHAPES)
    layout = choose.choice(layouts)
    if layout == "transposed" and len(shape) == 2:
        return normal(shape[::-1], dtype, generator).t()
    if layout == "channels_last" and len(shape) == 4:
        return normal(shape, dtype, generator).to(memory_format=torch.channels_last)
    if layout == "with_gaps" and shape and shape[-1] > 0:
        return normal((*shape[:-1], shape[-1] * 2), dtype, generator)[..., ::2]
    return normal(shape, dtype, generator)


def resumable(number, choose, types):
    """A case of parameters of these types, of which some have elements, with what a checkpoint gives back to the bit."""
    generator = torch.Generator().manual_seed(number)
    case = SimpleNamespace(number=number, initials=[initial(choose, kind, generator) for kind in types])
    if not any(value.numel() for value in case.initials):
        case.initials[0] = torch.randn(300, generator=generator)
    case.options, case.sparse = exchange(choose), choose.choice(SPARSE)
    case.optimizer = choose.choice([name for name in OPTIMIZERS if name != "nesterov" or not case.sparse])
    case.missing = choose.choice(["error", "error", "zero", "skip"])
    return case


def copied(value):
    """With the same strides."""
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value)


def distance(parameters, generator):
    """A term for each parameter, whose gradient is the way to a random point."""
    points = [normal(parameter.shape, parameter.dtype, generator) for parameter in parameters]
    return [0.5 * ((parameter - point).abs() ** 2).sum().float() for parameter, point in zip(parameters, points)]


def used(number, step, rank, able, share):
    """Which parameters this rank's step reaches: that share of all, and at least one that is `able` to travel."""
    choose = random.Random(f"{number} {step} {rank}")
    reached = [choose.random() < share for _ in able]
    travels = [index for index, travels in enumerate(able) if travels]
    reached[travels[step % len(travels)]] = True
    return reached


def shown(case):
    """Of what a wrong number has chosen."""
    words = {name: value for name, value in vars(case).items() if name != "initials"}
    return f"{words} of {[(str(value.dtype), tuple(value.shape), value.stride()) for value in case.initials]}"


def run(arguments, case_of, check):
    """`check` returns what is wrong, or None. The arguments: the first number, and how many."""
    first, count = map(int, arguments)
    for number in range(first, first + count):
        case = case_of(number)
        try:
            wrong = check(case)
        except Exception:
            print(f"number {number}: {shown(case)}", flush=True)
            raise
        assert not wrong, f"number {number}: {wrong}: {shown(case)}"
