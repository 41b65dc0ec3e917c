"""Resumes at random: a job that begins again from a checkpoint ends with the bits of the one that went on, whatever
options, types and steps a number has chosen. Where the server keeps an update log, nothing is trained again: its steps
are replayed. FIRST COUNT of the numbers; `logged` after them."""

import random
import sys
from types import SimpleNamespace

import torch
from case import OPTIMIZERS, distance, initial, run, used

import ringwood.torch as rw

torch.set_num_threads(1)
LOGGED = "logged" in sys.argv
SPARSE = [{}, {}, {"density": 0.05}, {"density": 0.1, "route": "sparse"}]
# `threshold` is left out: its threshold is no part of a checkpoint (docs/sparse.md).
SOMETIMES = {"sparse_codec": ["block16/fp32", "rice/fp32", "block16/bf16", "rice/int8", "block16/int4"],
             "sparse_merge": ["gtopk", "union", "exact"], "sparse_keep": [1.0, 2.5], "momentum_masking": [True, False],
             "warmup_steps": [2, 4, 20], "clip_norm": [1.0]}


def case_of(number):
    choose = random.Random(number)
    generator = torch.Generator().manual_seed(number)
    only = choose.choice([torch.float32, torch.float32, torch.bfloat16, None])
    types = [only or choose.choice([torch.float32, torch.bfloat16]) for _ in range(choose.randint(1, 6))]
    case = SimpleNamespace(number=number, initials=[initial(choose, kind, generator) for kind in types])
    if not any(value.numel() for value in case.initials):
        case.initials[0] = torch.randn(300, generator=generator)
    case.options = {"wire": choose.choice(["native", "native", "fp32", "bf16", "int8", "int4", "auto"]),
                    "planner": choose.choice(["hybrid", "hybrid", "single", "wfbp", "mgwfbp", "exact", "lags", "omgs"])}
    case.options |= {name: choose.choice(values) for name, values in SOMETIMES.items() if choose.random() < 0.3}
    case.options |= choose.choice([{}, {}, {"sparse_chunk": 64}, {"sparse_method": "gaussian"}])
    case.sparse = choose.choice(SPARSE)
    case.optimizer = choose.choice([name for name in OPTIMIZERS if name != "nesterov" or not case.sparse])
    case.missing = choose.choice(["error", "error", "zero", "skip"])
    case.weights = choose.random() < 0.3
    case.steps = choose.randint(2, 8)
    case.saved = choose.randint(1, case.steps - 1)  # the step with the checkpoint
    return case


def trained(case, resume):
    rw.init(resume=int(resume), **case.options)
    model = torch.nn.ParameterList([torch.nn.Parameter(value.clone()) for value in case.initials])
    optimizer = rw.DistributedOptimizer(OPTIMIZERS[case.optimizer](model.parameters()), model.named_parameters(),
                                        missing=case.missing, **case.sparse)
    checkpoint = rw.Checkpoint(model, optimizer)
    begin = checkpoint.restore()
    assert begin == (0 if not resume else case.steps if LOGGED else case.saved), begin
    for step in range(begin, case.steps):
        optimizer.zero_grad()
        optimizer.weight = random.Random(step + rw.rank()).choice([0.5, 1, 3]) if case.weights else 1.0
        generator = torch.Generator().manual_seed(case.number * 100 + step * 7 + rw.rank())
        able = [value.numel() > 0 for value in case.initials]
        reached = used(case.number, step, rw.rank(), able, 1.1 if case.missing == "error" else 0.7)
        sum(term for term, some in zip(distance(list(model), generator), reached) if some).backward()
        optimizer.step()
        if step + 1 == case.saved:
            checkpoint.save()
            checkpoint.wait()
    rw.shutdown()
    return [parameter.detach() for parameter in model]


def check(case):
    for index, (one, other) in enumerate(zip(trained(case, resume=False), trained(case, resume=True))):
        if not torch.equal(one, other):
            return f"parameter {index} differs by {float((one - other).abs().max())}"
    return None


run([word for word in sys.argv[1:] if word != "logged"], case_of, check)
