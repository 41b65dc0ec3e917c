"""The calls by which ranks agree before the first step begin anew where another rank dies under them. One process: this
rank was started as rank 1 and is the root of what is broadcast; rank 0 dies in one of its collectives."""

import sys
from types import SimpleNamespace

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
torch = pytest.importorskip("torch")

from ringwood import horovod as hvd  # noqa: E402
from ringwood.checkpoint import Checkpoint  # noqa: E402
from ringwood.content import bytes_of  # noqa: E402
from ringwood.errors import AbortedError, NotFoundError, RefusedError  # noqa: E402
from ringwood.local.local_steps import LocalSteps  # noqa: E402


class Session:
    """`fatal`: the collective in which rank 0 dies, counted from 1. What others bring is what this rank has."""
    slot, step, opened, receiving, logged, closed, replays, resumed = 1, 0, (1, 3, 0), False, False, False, 0, False

    def __init__(self, fatal=0):
        self.rank, self.world, self.epoch, self.fatal, self.calls, self.items = 1, 3, 1, fatal, 0, {}

    def allreduce(self, array, op="sum"):
        self.calls += 1
        if self.calls == self.fatal:
            self.rank, self.world, self.epoch = 0, 2, 2
            raise AbortedError("the members of the job have changed under a collective call")
        return array

    def broadcast(self, array, root):
        self.root = root
        return self.allreduce(array)

    def checkpoint(self, shared, per_rank):
        for scope, items in (("shared", shared), ("per_rank", per_rank)):
            self.items.update({(scope, name): bytes_of(item).numpy().tobytes() if torch.is_tensor(item) else item
                               for name, item in items.items()})

    def restore(self, name, scope="shared"):
        if (scope, name) not in self.items:
            raise NotFoundError(name)
        return self.items[scope, name]

    checkpoint_wait = agree = lambda self: None
    register = begin_step = ready = lambda self, *_, **__: None


def share_an_object(session, monkeypatch):
    monkeypatch.setattr(hvd._rw, "session", lambda: session)
    assert hvd.broadcast_object({"pass": 3}, root_rank=1) == {"pass": 3}
    assert session.root == session.rank, "the root's number in this epoch"


def begin_local_steps(session, monkeypatch):
    model = torch.nn.Linear(2, 2)
    job = SimpleNamespace(session=session, leaving=[], claim=lambda owner: None)
    LocalSteps(job, model, torch.optim.SGD(model.parameters(), lr=0.1), every=2).step()


def checkpoint_of(session):
    model = torch.nn.Linear(2, 2)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    return Checkpoint(model, SimpleNamespace(session=session, param_groups=inner.param_groups, leads=True, saved_at=None,
                                             scaler=None, shared_state=inner.state_dict,
                                             load_state_dict=inner.load_state_dict))


def save_the_start(session, monkeypatch):
    session.logged = True
    checkpoint_of(session).restore()


def resume_with_more_ranks(session, monkeypatch):
    saved = Session()
    saved.rank, saved.world = 0, 1
    checkpoint_of(saved).save()
    session.rank, session.resumed, session.items = 0, True, saved.items  # it gives others what they have not saved
    checkpoint_of(session).restore()


@pytest.mark.parametrize("call", [share_an_object, begin_local_steps, save_the_start, resume_with_more_ranks])
def test_a_call_before_the_first_step_begins_anew_where_another_rank_dies(call, monkeypatch):
    whole = Session()
    call(whole, monkeypatch)
    assert whole.calls > 0
    for fatal in range(1, whole.calls + 1):
        session = Session(fatal)
        call(session, monkeypatch)
        assert session.epoch == 2, f"it died in call {fatal}"


def test_an_object_is_refused_where_the_others_are_past_the_call(monkeypatch):
    session = Session()
    session.receiving = True
    monkeypatch.setattr(hvd._rw, "session", lambda: session)
    with pytest.raises(RefusedError, match="the others are past this call"):
        hvd.broadcast_object(None, root_rank=1)
