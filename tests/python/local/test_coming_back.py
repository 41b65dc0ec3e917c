"""Which checkpoints a rank takes part in that comes back to others that train with local steps, and which round it begins.
One process: the others' sessions and this rank's are scripted."""

import copy
import sys
from types import SimpleNamespace

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
torch = pytest.importorskip("torch")

from ringwood import elastic  # noqa: E402
from ringwood.checkpoint import Checkpoint  # noqa: E402
from ringwood.interface.results import StepResult  # noqa: E402
from ringwood.local.local_steps import LocalSteps  # noqa: E402
from ringwood.local.rounds import Schedule  # noqa: E402
from ringwood.memory import bytes_of  # noqa: E402
from ringwood.sampler import Sampler  # noqa: E402


class Session:
    """Rounds end as soon as they are waited for. While this rank waits for the round `away` the others go on, and are in
    the round `back` when it comes again, with the state `there`."""
    rank, slot, world, epoch, opened, receiving, logged, closed = 0, 0, 2, 1, (0, 2, 0), False, False, False

    def __init__(self, due, away, back, there):
        self.step, self.due, self.away, self.back, self.there = 0, due, away, back, there
        self.begun, self.saved, self.states = [], [], {}
        self.receiving = away == 0

    def register(self, *_, **__):
        pass

    def state_on_request(self):
        pass

    def agree(self):
        pass

    def allreduce(self, array, op):
        return array

    def ready(self, identity):
        pass

    def residual(self, name):
        pass

    def begin_step(self, weight):
        self.begun.append((self.step + 1, weight))

    def finish_step(self):
        received = self.receiving or self.step + 1 == self.away
        if received:
            self.step, self.receiving = self.back, False
            self.optimizer.load_state_dict(self.there)
        else:
            self.states[self.step + 1] = copy.deepcopy(self.optimizer.shared_state())
            self.step += 1
        return StepResult(self.step, False, total_weight=1.0, dense_bytes=0, sparse_bytes=0, dense_equivalent_bytes=0,
                          received=received, checkpoint_due=self.step in self.due)

    def checkpoint(self, shared, per_rank):
        self.saved.append(self.step)


def trained(steps, every, due=(), away=None, back=None, there=None):
    """The session of a rank that has trained for so many steps. A round begins every second step, in which the one before
    ends: a checkpoint waits for one that is under way."""
    model, session = torch.nn.Linear(2, 2), Session(due, away, back, there)
    job = SimpleNamespace(session=session, leaving=[], claim=lambda owner: None)
    session.optimizer = LocalSteps(job, model, torch.optim.SGD(model.parameters(), lr=0.1), every=2, delay=2, mix=0.5)
    checkpoint = Checkpoint(model, session.optimizer, every=every)
    for _ in range(steps):
        session.optimizer.step()
        checkpoint.step()
    return session


@pytest.mark.parametrize("every, due", [(3, ()), ("auto", (3, 6, 9))])
@pytest.mark.parametrize("away", [0, 3, 4])  # a new rank; one that waits in its step, and one in a checkpoint
@pytest.mark.parametrize("back, others", [(8, "train"), (9, "are about to save"), (10, "save")])
def test_a_rank_that_comes_back_saves_what_the_others_save(every, due, away, back, others):
    there = trained(24, every, due)
    assert there.saved == [4, 7, 10]
    here = trained(14, every, due, away, back, there.states[back])
    assert [step for step in here.saved if step >= back][:1] == [10], f"the others {others}"
    after = [number for number, _ in here.begun if number > back]
    assert after == list(range(back + 1, back + 1 + len(after))) and len(after) > 2, "every round is begun, once"
    if others != "save":
        assert (back + 1, 0.0) in here.begun, "the next round has begun with this rank's return"


def test_the_samples_of_a_round_that_began_without_this_rank_are_left_out():
    optimizer = SimpleNamespace(schedule=Schedule(2, delay=2), session=SimpleNamespace(step=8), _came=0, _left_out=9)
    assert list(LocalSteps.batches(optimizer, [1, 2])) == [] and len(list(LocalSteps.batches(optimizer, [3, 4]))) == 2
    optimizer._left_out = 8  # that round is over
    assert len(list(LocalSteps.batches(optimizer, [3, 4]))) == 2


def test_ranks_that_count_their_steps_differently_give_a_state_of_one_size(monkeypatch):
    """With a delay a rank that came has taken some steps more than the others, and its scheduler's numbers other digits:
    the next one to come gets the state from all of them."""
    monkeypatch.setattr(elastic, "refuse_differences", lambda *_: None)
    monkeypatch.setattr(elastic.job, "current", SimpleNamespace)

    def sizes(steps):
        model = torch.nn.Linear(2, 2)
        job = SimpleNamespace(session=Session((), None, None, None), leaving=[], claim=lambda owner: None)
        optimizer = LocalSteps(job, model, torch.optim.SGD(model.parameters(), lr=0.1), every=20, delay=2)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
        training = elastic.Elastic(model, optimizer, Sampler(100, 10), scheduler=scheduler)
        for _ in range(steps):
            optimizer.step()
            scheduler.step()
        return [(name, bytes_of(name, value)[1]) for name, value in training.items().items()]

    assert sizes(8) == sizes(10)
