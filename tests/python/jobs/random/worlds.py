"""Worlds that change, at random: a job that was saved on N ranks goes on with M, several times, N and M from 1 to 4. Each
begins with what was saved: parameters, optimizer and parts to the bit, the sum of all residuals, each rank's own buffer;
and its ranks end alike. FIRST COUNT of the numbers, on 4 ranks, of which the last ones wait where a world is smaller."""

import os
import random
import sys

import torch
import torch.distributed
from case import OPTIMIZERS, distance, resumable, run, used

import ringwood.torch as rw

torch.set_num_threads(1)
ME = int(os.environ["RANK"])


def case_of(number):
    choose = random.Random(number)
    types = [choose.choice([torch.float32, torch.float32, torch.bfloat16]) for _ in range(choose.randint(1, 6))]
    case = resumable(number, choose, types)
    case.worlds = [choose.randint(1, 4) for _ in range(3)]
    case.steps = choose.randint(1, 4)  # in each of them
    return case


class Training:
    """One session: a world of the case, with what was saved in the one before."""

    def __init__(self, case, turn):
        rw.init(rank=ME, world=case.worlds[turn], resume=int(turn > 0), **case.options)
        self.case = case
        self.model = torch.nn.ParameterList([torch.nn.Parameter(value.clone()) for value in case.initials])
        self.model.register_buffer("own", torch.tensor(-1.0))
        self.optimizer = rw.DistributedOptimizer(OPTIMIZERS[case.optimizer](self.model.parameters()),
                                                 self.model.named_parameters(), missing=case.missing, **case.sparse)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.7)
        self.checkpoint = rw.Checkpoint(self.model, self.optimizer, schedule=self.schedule)
        begun = self.checkpoint.restore()
        assert begun == turn * case.steps, begun

    def step(self, step):
        self.optimizer.zero_grad()
        generator = torch.Generator().manual_seed(self.case.number * 100 + step * 7 + ME)
        able = [value.numel() > 0 for value in self.case.initials]
        reached = used(self.case.number, step, ME, able, 1.1 if self.case.missing == "error" else 0.7)
        sum(term for term, some in zip(distance(list(self.model), generator), reached) if some).backward()
        self.optimizer.step()
        self.schedule.step()

    def shared(self):
        """Name -> what all ranks have alike."""
        shared = {f"parameter {index}": value.detach().clone() for index, value in enumerate(self.model)}
        shared |= {f"{name} of parameter {index}": torch.as_tensor(value).clone() for index, one in enumerate(self.model)
                   for name, value in self.optimizer.state[one].items() if value is not None}
        return shared | {"lr": torch.tensor(self.optimizer.param_groups[0]["lr"])}

    def owed(self):
        """What all ranks together hold back, of each parameter."""
        return [rw.allreduce(torch.from_numpy(rw.session().residual(name)).double(), op="sum")
                for name, value in self.model.named_parameters() if value.numel()]

    def own(self):
        """Each rank's buffer."""
        return [float(text) for text in rw.gather_texts(str(self.model.own.item()))]


def refuse_differences(what, one, other):
    assert one.keys() == other.keys(), f"{what}: {one.keys() ^ other.keys()}"
    for name in one:
        assert torch.equal(one[name], other[name]), f"{what}: {name} is {one[name]}, not {other[name]}"


def trained(case, turn, saved):
    """What the world of this turn begins with is compared with `saved`; what it ends with is saved and returned."""
    training = Training(case, turn)
    if saved:
        refuse_differences("after the resume", training.shared(), saved["shared"])
        for index, (now, then) in enumerate(zip(training.owed(), saved["owed"])):
            assert torch.allclose(now, then, rtol=1e-5, atol=1e-6 * float(then.abs().max())), \
                f"residual {index} is {now}, not {then}"
        of_old = saved["own"] + [saved["own"][0]] * 4
        assert training.own() == of_old[:case.worlds[turn]], (training.own(), saved["own"])
    for step in range(turn * case.steps, (turn + 1) * case.steps):
        training.step(step)
    training.model.own.fill_(10 * turn + ME)
    training.checkpoint.save()
    training.checkpoint.wait()
    ended = {"shared": training.shared(), "owed": training.owed(), "own": training.own()}
    rw.shutdown()
    return ended


def check(case):
    saved = None
    for turn, world in enumerate(case.worlds):
        ended = [trained(case, turn, saved) if ME < world else None]
        mine = ended[0]
        torch.distributed.broadcast_object_list(ended)
        saved = ended[0]
        if mine:
            refuse_differences(f"rank 0 in world {turn}", mine["shared"], saved["shared"])
    return None


torch.distributed.init_process_group("gloo")
run(sys.argv[1:], case_of, check)
torch.distributed.destroy_process_group()
