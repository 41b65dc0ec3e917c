"""Resumes at random: a job that begins again from a checkpoint ends with the bits of the one that went on, whatever
options, types and steps a number has chosen, and whatever a loop does beside: clipping, a GradScaler whose gradients
overflow now and then, several backward passes a step, a learning-rate schedule, an average of the weights. Where the
server keeps an update log, nothing is trained again: its steps are replayed. FIRST COUNT of the numbers; `logged` after
them."""

import contextlib
import random
import sys

import torch
from case import OPTIMIZERS, distance, resumable, run, used

import ringwood.torch as rw

torch.set_num_threads(1)
LOGGED = "logged" in sys.argv


def case_of(number):
    choose = random.Random(number)
    only = choose.choice([torch.float32, torch.float32, torch.bfloat16, None])
    types = [only or choose.choice([torch.float32, torch.bfloat16]) for _ in range(choose.randint(1, 6))]
    case = resumable(number, choose, types)
    case.weights = choose.random() < 0.3
    case.steps = choose.randint(2, 8)
    case.saved = choose.randint(1, case.steps - 1)  # the step with the checkpoint
    case.passes = choose.choice(["one", "one", "no_sync", "per_step"])
    case.clips = choose.random() < 0.3
    case.scales = choose.random() < 0.3 and hasattr(torch.amp, "GradScaler")
    case.overflows = [step for step in range(case.steps) if case.scales and choose.random() < 0.2]
    return case


class Training:
    """What the loop holds, and what it does in a step."""

    def __init__(self, case):
        self.case = case
        self.model = torch.nn.ParameterList([torch.nn.Parameter(value.clone()) for value in case.initials])
        self.scaler = rw.GradScaler("cpu", init_scale=256.0, growth_interval=2, enabled=case.scales)
        self.optimizer = rw.DistributedOptimizer(
            OPTIMIZERS[case.optimizer](self.model.parameters()), self.model.named_parameters(), missing=case.missing,
            scaler=self.scaler, backward_passes_per_step=3 if case.passes == "per_step" else 1, **case.sparse)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.7)
        self.average = torch.optim.swa_utils.AveragedModel(self.model)

    def backward(self, step):
        case, passes = self.case, 1 if self.case.passes == "one" else 3
        generator = torch.Generator().manual_seed(case.number * 100 + step * 7 + rw.rank())
        able = [value.numel() > 0 for value in case.initials]
        reached = used(case.number, step, rw.rank(), able, 1.1 if case.missing == "error" else 0.7)
        for each in range(passes):
            loss = sum(term for term, some in zip(distance(list(self.model), generator), reached) if some)
            if step in case.overflows and rw.rank() == step % 2:
                loss = loss * float("inf")
            held_back = case.passes == "no_sync" and each + 1 < passes
            with self.optimizer.no_sync() if held_back else contextlib.nullcontext():
                self.scaler.scale(loss / passes).backward()

    def clip(self):
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def after_step(self):
        self.schedule.step()
        self.average.update_parameters(self.model)

    def found(self):
        """Name -> tensor or number: all that a step leaves behind."""
        found = {f"parameter {index}": parameter.detach() for index, parameter in enumerate(self.model)}
        found |= {f"average {index}": value for index, value in enumerate(self.average.parameters())}
        found |= {f"{name} of parameter {index}": torch.as_tensor(value) for index, parameter in enumerate(self.model)
                  for name, value in self.optimizer.state[parameter].items() if value is not None}
        return found | {"lr": torch.tensor(self.optimizer.param_groups[0]["lr"]),
                        "scale": torch.tensor(self.scaler.get_scale())}


def trained(case, resume):
    rw.init(resume=int(resume), **case.options)
    training = Training(case)
    optimizer, scaler = training.optimizer, training.scaler
    checkpoint = rw.Checkpoint(training.model, optimizer, schedule=training.schedule, scaler=scaler,
                               average=training.average)
    begin = checkpoint.restore(before_step=training.clip if case.clips else None, after_step=training.after_step)
    assert begin == (0 if not resume else case.steps if LOGGED else case.saved), begin
    for step in range(begin, case.steps):
        optimizer.zero_grad()
        optimizer.weight = random.Random(step + rw.rank()).choice([0.5, 1, 3]) if case.weights else 1.0
        training.backward(step)
        if case.clips:
            optimizer.synchronize()
            training.clip()
        scaler.step(optimizer)
        scaler.update()
        training.after_step()
        if step + 1 == case.saved:
            checkpoint.save()
            checkpoint.wait()
    rw.shutdown()
    return training.found()


def check(case):
    one, other = trained(case, resume=False), trained(case, resume=True)
    assert one.keys() == other.keys(), one.keys() ^ other.keys()
    return next((f"{name} differs: {one[name]} and {other[name]}" for name in one if not torch.equal(one[name], other[name])),
                None)


run([word for word in sys.argv[1:] if word != "logged"], case_of, check)
