"""An elastic job at random: ranks die as a number has chosen, in backward, before the step, in the exchange, in a call
between two steps or while they save, by SIGKILL, _exit or SystemExit, alone or all at once. The launcher starts them
again, and the job ends when all are together in their last lives. After each step all ranks have the same state, each
sample of a pass has been in one step, and the averages are those of the step's samples. FOLDER NUMBER."""

import contextlib
import hashlib
import os
import pathlib
import random
import signal
import sys
import threading
import time
from types import SimpleNamespace

import torch
from case import OPTIMIZERS, SPARSE, exchange, initial, normal, shown

import ringwood.torch as rw
from ringwood import AbortedError

torch.set_num_threads(1)
FOLDER, NUMBER, LIFE = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(os.environ["RINGWOOD_RESTART"])
PLACES = ["backward", "before step", "exchange", "after step", "call", "save"]
WAYS = {"signal": lambda: os.kill(os.getpid(), signal.SIGKILL), "exit": lambda: os._exit(1), "75": lambda: sys.exit(75)}


def case_of(number, world):
    choose = random.Random(number)
    generator = torch.Generator().manual_seed(number)
    types = [choose.choice([torch.float32, torch.float32, torch.bfloat16]) for _ in range(choose.randint(1, 4))]
    case = SimpleNamespace(number=number, initials=[initial(choose, kind, generator) for kind in types])
    case.exact = choose.random() < 0.6  # densely and unrounded: the averages are known
    case.options, case.sparse = ({}, {}) if case.exact else (exchange(choose), choose.choice(SPARSE))
    case.optimizer = choose.choice([name for name in OPTIMIZERS if name != "nesterov" or not case.sparse])
    case.passes, case.scales = choose.choice([1, 1, 2]), choose.random() < 0.3 and hasattr(torch.amp, "GradScaler")
    case.samples, case.batch = choose.randint(5, 60), choose.randint(1, 16)
    case.every = choose.choice([1, 3])
    # Of each rank and life the step in which it ends (counted in that life), where, and how.
    case.deaths = [[death(choose) for _ in range(choose.choice([0, 0, 1, 2]))] for _ in range(world)]
    if choose.random() < 0.25:
        case.deaths = [[death(choose)]] * world
    return case


def death(choose):
    place = choose.choice(PLACES)
    return choose.randint(1, 6), place, "signal" if place == "exchange" else choose.choice(list(WAYS))


class Training:
    def __init__(self, case):
        rw.init(**case.options)
        generator = torch.Generator().manual_seed(case.number)
        self.case, self.used = case, set()
        self.samples = [normal((case.samples, *value.shape), value.dtype, generator) for value in case.initials]
        # The last one's gradient is above 0 where a sample is in the step.
        values = [*case.initials, torch.zeros(case.samples)]
        self.model = torch.nn.ParameterList([torch.nn.Parameter(value.clone()) for value in values])
        self.model[0].register_hook(lambda _: self.at("backward"))
        self.scaler = rw.GradScaler("cpu", init_scale=256.0, growth_interval=2, enabled=case.scales)
        self.optimizer = rw.DistributedOptimizer(OPTIMIZERS[case.optimizer](self.model.parameters()),
                                                 self.model.named_parameters(), scaler=self.scaler, **case.sparse)
        self.session = self.optimizer.session
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 5, gamma=0.9)
        self.sampler = rw.Sampler(case.samples, case.batch, seed=case.number)
        parts = {"schedule": self.schedule, "scaler": self.scaler}
        rw.broadcast_parameters(self.model.state_dict())
        rw.elastic(self.model, self.optimizer, self.sampler, **parts)
        self.checkpoint = rw.Checkpoint(self.model, self.optimizer, every=case.every, sampler=self.sampler, **parts)
        self.checkpoint.restore()
        if self.session.resumed and not self.session.receiving:
            saved = (FOLDER / str(self.session.step)).read_text()
            assert self.digest() == saved, f"resumed at step {self.session.step} with {self.digest()}, not {saved}"
        self.whole = not self.session.receiving and self.session.step == 0  # whether all steps of the pass were seen
        self.death = (case.deaths[rw.rank()][LIFE:] + [(0, "", "")])[0]
        self.count = 0  # steps in this life

    def at(self, place):
        step, where, how = self.death
        if (step, where) == (self.count, place):
            print(f"rank {rw.rank()} dies in step {self.session.step + 1}: {place}, {how}", flush=True)
            WAYS[how]()

    def digest(self):
        state = [*self.model.state_dict().values(), torch.tensor(self.optimizer.param_groups[0]["lr"])]
        state += [torch.as_tensor(value) for parameter in self.model
                  for _, value in sorted(self.optimizer.state[parameter].items()) if value is not None]
        content = b"".join(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes() for tensor in state
                           if tensor.numel())
        return hashlib.sha256(content).hexdigest()[:16] + f" {self.scaler.get_scale()}"

    def backward(self, indices):
        for part in range(self.case.passes):
            mine = list(indices)[part::self.case.passes]
            values = [*self.samples, torch.eye(self.case.samples)]
            loss = sum((parameter * value[mine].float().sum(0)).float().sum() for parameter, value in zip(self.model, values))
            held_back = part + 1 < self.case.passes
            with self.optimizer.no_sync() if held_back else contextlib.nullcontext():
                self.scaler.scale(loss / len(indices)).backward()

    def refuse_wrong_averages(self):
        """Of the step's samples, which no other step of the pass may have had."""
        *averages, seen = [parameter.grad for parameter in self.model]
        step = seen.nonzero().flatten().tolist()
        assert len(step) == self.optimizer.last.total_weight, (step, self.optimizer.last)
        assert torch.allclose(seen[step], torch.full((len(step),), 1 / len(step))), (step, seen[step])
        assert not self.used & set(step), f"again in this pass: {self.used & set(step)}"
        self.used |= set(step)
        for average, values in zip(averages, self.samples):
            wanted = values[step].float().mean(0)
            error = 1e-5 if values.dtype == torch.float32 else 4e-2
            error *= max(1.0, float(values.float().abs().max()) if values.numel() else 0.0)
            assert torch.allclose(average.float(), wanted, atol=error), f"{average} instead of {wanted}"

    def step(self, indices):
        self.count += 1
        before, passed = self.session.step, self.sampler.passes
        if self.death[:2] == (self.count, "exchange"):
            threading.Timer(random.random() * 0.02, self.at, ["exchange"]).start()
        self.optimizer.zero_grad()
        self.backward(indices)
        self.at("before step")
        self.optimizer.synchronize()
        self.scaler.unscale_(self.optimizer)
        came = self.optimizer.last.received
        assert self.session.step == before + 1 or came, (self.session.step, before, self.optimizer.last)
        if self.optimizer.last.skipped:
            self.whole = False  # of an overflow no sample is seen
        elif self.case.exact:
            self.refuse_wrong_averages()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()
        self.at("after step")
        if came:  # perhaps with another pass
            self.used, self.whole = set(), False
        elif self.sampler.passes != passed:
            if self.case.exact and self.whole:
                assert self.used == set(range(self.case.samples)), f"{self.used} is not all of the pass"
            self.used, self.whole = set(), True

    def told(self):
        """What each rank that took the step says: whether it has died often enough, and its state."""
        while not self.session.receiving:
            try:
                self.at("call")
                ready = not self.death[0] and self.count > 3
                return rw.gather_texts(f"{ready} {self.digest()} {self.sampler.state_dict()}")
            except AbortedError:
                continue
        return []

    def save(self):
        if self.session.step % self.case.every == 0 and self.session.rank == 0:
            (FOLDER / f"{self.session.step}").write_text(self.digest())
        self.checkpoint.step()
        self.at("save")


def trained(training):
    while True:
        for indices in training.sampler:
            training.step(indices)
            told = training.told()
            assert len(set(text.split(" ", 1)[1] for text in told)) <= 1, f"after step {training.session.step}: {told}"
            if len(told) == rw.size() and all(text.startswith("True") for text in told):
                return
            training.save()
            time.sleep(0.01)


case = case_of(NUMBER, int(os.environ["WORLD_SIZE"]))
try:
    trained(Training(case))
except Exception:
    print(f"number {NUMBER}: {shown(case)}", flush=True)
    raise
rw.shutdown()
print(f"rank {os.environ['RANK']} ended in life {LIFE}", flush=True)
