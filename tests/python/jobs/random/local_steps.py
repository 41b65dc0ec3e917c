"""Local steps at random: a job that begins again from a checkpoint, in the middle of a round or between two, ends with
the bits of the one that went on, and all ranks end with the same parameters. FIRST COUNT of the numbers."""

import random
import sys
from types import SimpleNamespace

import torch
from case import OPTIMIZERS, distance, initial, normal, run, used

import ringwood.torch as rw

torch.set_num_threads(1)
OUTER = {"default": lambda: None, "nesterov": lambda: rw.Nesterov(lr=0.7, momentum=0.9),
         "average": lambda: rw.OuterSGD(lr=1.0), "momentum": lambda: rw.OuterSGD(lr=0.8, momentum=0.5),
         "adam": lambda: lambda parameters: torch.optim.Adam(parameters, lr=0.01)}
INNER = {**OPTIMIZERS, "average_adamw": lambda given: rw.AverageAdamW(given, lr=0.01)}


def case_of(number):
    choose = random.Random(number)
    generator = torch.Generator().manual_seed(number)
    types = [choose.choice([torch.float32, torch.float32, torch.bfloat16]) for _ in range(choose.randint(1, 5))]
    case = SimpleNamespace(number=number, initials=[initial(choose, kind, generator) for kind in types])
    if choose.random() < 0.5 or not any(value.numel() for value in case.initials):
        case.initials.append(normal((70, 80), torch.float32, generator))  # large enough to be sparse
    fragments = min(choose.choice([1, 1, 2, 3]), sum(value.numel() > 0 for value in case.initials))
    rounds = choose.randint(1, 4)  # steps from one fragment's exchange to the next one's
    case.options = {"fragments": fragments, "every": fragments * rounds, "delay": choose.choice([0, 0, rounds]),
                    "mix": choose.choice([0, 0, 0.25])}
    if case.options["delay"] == case.options["every"]:
        case.options["mix"] = 0.5  # nothing would be left of what was trained meanwhile
    case.outer = choose.choice(list(OUTER))
    if choose.random() < 0.5:
        case.options |= {"density": choose.choice([0.05, 64 / 4096]), "residual_decay": choose.choice([1.0, 0.95]),
                         "codec": choose.choice([None, "rice/int2", "rice/fp32", "block16/int4"]),
                         "chunk": choose.choice([None, 64, 4096]), "merge": choose.choice([None, "gtopk", "exact"])}
        if choose.random() < 0.3:
            case.options["ahead"], case.outer = True, choose.choice(["default", "average"])
    else:
        case.options["codec"] = choose.choice([None, "bf16", "int8", "int4"])
    case.inner = choose.choice(list(INNER))
    case.share, case.weights = choose.choice([1.1, 1.1, 0.7]), choose.random() < 0.3
    case.steps = choose.randint(2, 4 * case.options["every"] + 2)
    case.saved = choose.randint(1, case.steps - 1)  # the step with the checkpoint
    return case


def trained(case, resume):
    """The parameters after the last step, and after join()."""
    rw.init(resume=int(resume))
    model = torch.nn.ParameterList([torch.nn.Parameter(value.clone()) for value in case.initials])
    optimizer = rw.LocalSteps(model, INNER[case.inner](model.parameters()), outer=OUTER[case.outer](), **case.options)
    checkpoint = rw.Checkpoint(model, optimizer)
    checkpoint.restore()  # which returns rounds
    for step in range(case.saved if resume else 0, case.steps):
        optimizer.zero_grad()
        optimizer.weight = random.Random(step + rw.rank()).choice([0.5, 1, 3]) if case.weights else 1.0
        generator = torch.Generator().manual_seed(case.number * 100 + step * 7 + rw.rank())
        reached = used(case.number, step, rw.rank(), [value.numel() > 0 for value in case.initials], case.share)
        sum(term for term, some in zip(distance(list(model), generator), reached) if some).backward()
        optimizer.step()
        if step + 1 == case.saved and not resume:
            checkpoint.save()
            checkpoint.wait()
    found = [parameter.detach().clone() for parameter in model]
    optimizer.join()
    found += [parameter.detach() for parameter in model]
    if not case.options.get("ahead"):  # each rank less what it owes
        for parameter in found[len(model):]:
            if parameter.numel():
                flat = parameter.float().flatten()
                assert torch.equal(rw.allreduce(flat.clone(), op="max"), rw.allreduce(flat.clone(), op="min"))
    rw.shutdown()
    return found


def check(case):
    for index, (one, other) in enumerate(zip(trained(case, resume=False), trained(case, resume=True))):
        if not torch.equal(one, other):
            return f"parameter {index} of {len(case.initials)} and as many after join() differs"
    return None


run(sys.argv[1:], case_of, check)
