"""What rw.save does with a checkpoint that cannot be made, and when it makes one."""

import sys
from types import SimpleNamespace

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
torch = pytest.importorskip("torch")
ringwood = pytest.importorskip("ringwood")
training = pytest.importorskip("ringwood.training")


class Session:
    """Of a world of one. `failure`: what the next checkpoint raises."""
    rank, slot, world, step, failure, closed = 0, 2, 1, 0, None, False

    def __init__(self):
        self.saved = []

    def allreduce(self, array, op):
        return array

    def checkpoint(self, shared, per_rank):
        if self.failure:
            raise self.failure
        self.saved.append(self.step)


def make():
    model = torch.nn.Linear(2, 2)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, SimpleNamespace(session=Session(), committed_before=0, leads=True, saved_at=None, saving_at=None, followed=False,
                                  last=None,
                                  param_groups=inner.param_groups, shared_state=inner.state_dict)


@pytest.mark.parametrize("failure", [ringwood.ExhaustedError("No space left on device"),
                                     ringwood.InternalError("an I/O error")])
def test_a_checkpoint_that_fails_is_told_and_training_goes_on(capsys, failure):
    model, optimizer = make()
    session = optimizer.session
    session.step, session.failure = 1, failure
    assert training.save(model, optimizer, {}) is False
    assert f"W rank 2: no checkpoint of step 1: {failure}" in capsys.readouterr().err
    session.failure = None
    assert training.save(model, optimizer, {}) is False, "other ranks have it perhaps: all try again together"
    session.step = 2
    assert training.save(model, optimizer, {}) is True and session.saved == [2]


def test_wrong_use_of_save_is_still_an_error():
    model, optimizer = make()
    optimizer.session.step, optimizer.session.failure = 1, ringwood.InvalidError("two items of one name")
    with pytest.raises(ringwood.InvalidError):
        training.save(model, optimizer, {})
    with pytest.raises(ringwood.InvalidError):
        training.save(model, optimizer, {}, every=0)


def test_a_step_of_several_exchanges_passes_no_checkpoint_by():
    model, optimizer = make()
    session = optimizer.session
    for step in range(10):
        optimizer.committed_before, session.step = session.step, session.step + 3
        training.save(model, optimizer, {}, every=10)
    assert session.saved == [12, 21, 30]


def test_steps_that_a_scaler_leaves_out_and_passes_between_steps_make_no_further_checkpoints():
    model, optimizer = make()
    session = optimizer.session
    optimizer.committed_before = 99  # when the last step() began: those up to 103 were left out
    for session.step in (100, 100, 101, 102, 102, 103):
        training.save(model, optimizer, {}, every=100)
    optimizer.last = SimpleNamespace(checkpoint_due=True, ending=False)
    for session.step in (104, 104):
        training.save(model, optimizer, {}, every="auto")
    assert session.saved == [100, 104]


def test_a_full_disk_is_not_taken_for_wrong_configuration():
    assert ringwood.ExhaustedError("write: No space left on device").exit_code == 75
    assert ringwood.ExhaustedError("a stripe has too many chunks").exit_code == 78
