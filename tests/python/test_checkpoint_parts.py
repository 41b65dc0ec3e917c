"""rw.Checkpoint without a job: what it keeps, what it refuses, and when CUDA tensors are handed over."""

import sys
from types import SimpleNamespace

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "python"))
torch = pytest.importorskip("torch")
ringwood = pytest.importorskip("ringwood")
checkpoint = pytest.importorskip("ringwood.checkpoint")
snapshot = pytest.importorskip("ringwood.snapshot")
training_functions = pytest.importorskip("ringwood.training")

from ringwood.errors import InvalidError, NotFoundError, RefusedError, UnavailableError  # noqa: E402


class Session:
    """Of a world of one, whose store is a dict."""
    rank, slot, world, step, replays, epoch = 0, 0, 1, 0, 0, 1
    resumed = logged = closed = receiving = False

    def __init__(self, items=None):
        self.items, self.saved, self.resumed, self.failure = items or {}, [], items is not None, None

    def allreduce(self, array, op):
        return array

    def checkpoint(self, shared, per_rank):
        if self.failure:
            raise self.failure
        self.saved.append(self.step)
        for scope, items in (("shared", shared), ("per_rank", per_rank)):
            for name, value in items.items():
                if torch.is_tensor(value):
                    value = value.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
                self.items[scope, name] = value

    def checkpoint_wait(self):
        pass

    def restore(self, name, scope="shared"):
        try:
            return self.items[scope, name]
        except KeyError:
            raise NotFoundError(name) from None


class Training:
    def __init__(self, session):
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
        inner = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.inner = inner
        self.optimizer = SimpleNamespace(session=session, committed_before=0, last=None, param_groups=inner.param_groups,
                                         shared_state=inner.state_dict, load_state_dict=inner.load_state_dict,
                                         before_gradients=[], scaler=None, followed=False, leads=True, saved_at=None, saving_at=None)
        self.scheduler = torch.optim.lr_scheduler.StepLR(inner, 2)
        self.average = torch.optim.swa_utils.AveragedModel(self.model)
        self.counts = {"rows": 0}

    def checkpoint(self, **changes):
        parts = {"scheduler": self.scheduler, "average": self.average, "counts": self.counts, **changes}
        return checkpoint.Checkpoint(self.model, self.optimizer, every=1,
                                     **{name: part for name, part in parts.items() if part is not None})

    def step(self):
        self.inner.zero_grad()
        self.model(torch.randn(8, 4)).square().sum().backward()
        self.inner.step()
        self.scheduler.step()
        self.average.update_parameters(self.model)
        self.counts["rows"] += 8
        self.optimizer.session.step += 1

    def all(self):
        return ringwood.state.flatten({"model": self.model.state_dict(), "inner": self.inner.state_dict(),
                                       "scheduler": self.scheduler.state_dict(), "average": self.average.state_dict(),
                                       "counts": self.counts})


def same(one, other):
    return one[0] == other[0] and all(torch.equal(a, b) for a, b in zip(one[1].values(), other[1].values(), strict=True))


def test_everything_goes_on_as_it_would_have():
    first = Training(Session())
    for _ in range(3):
        first.step()
    assert first.checkpoint().step() is True
    then = Training(Session(dict(first.optimizer.session.items)))
    then.optimizer.session.step = 3
    torch.manual_seed(99)  # other generators, until it is restored
    assert then.checkpoint().restore() == 3
    assert same(then.all(), first.all())
    state = torch.get_rng_state()
    for _ in range(3):
        then.step()
    torch.set_rng_state(state)
    for _ in range(3):
        first.step()
    assert same(then.all(), first.all()), "dropout too"


def test_a_new_job_begins_at_step_0():
    training = Training(Session())
    before = training.all()
    assert training.checkpoint().restore() == 0 and same(before, training.all())


def test_parameters_that_the_optimizer_has_in_another_order_are_named():
    """PyTorch's state of an optimizer has numbers in the place of names: moments of equal shape would change places."""
    first = Training(Session())
    first.step()
    first.checkpoint().save()
    then = Training(Session(dict(first.optimizer.session.items)))
    group = then.inner.param_groups[0]
    group["params"] = [group["params"][at] for at in (0, 2, 1, 3)]  # 1 to 3: four elements each
    with pytest.raises(InvalidError, match=r'parameter 1 of optimizer 0 is "0.bias".*and here "1.weight".*export'):
        then.checkpoint().restore()
    group["params"] = [group["params"][at] for at in (0, 2, 1, 3)]
    assert then.checkpoint().restore() == 0 and same(then.all(), first.all())


def test_parts_that_are_not_the_checkpoints_are_named():
    first = Training(Session())
    first.step()
    first.checkpoint().save()
    then = Training(Session(dict(first.optimizer.session.items)))
    with pytest.raises(InvalidError, match="has average, counts, scheduler, and this program average, scheduler"):
        then.checkpoint(counts=None).restore()


def other(layer=(4, 4), optimizers=1):
    """The checkpoint of a training that goes on from the checkpoint of one as it is above, and differs from it."""
    first = Training(Session())
    first.step()
    first.checkpoint(average=None).save()
    then = Training(Session(dict(first.optimizer.session.items)))
    if layer != (4, 4):
        then.model[0] = torch.nn.Linear(*layer)
    return checkpoint.Checkpoint(then.model, [then.optimizer] * optimizers, scheduler=then.scheduler,
                                 counts=then.counts)


def test_a_checkpoint_of_another_program_is_refused_and_not_tried_again(monkeypatch):
    with pytest.raises(InvalidError, match="(?s)the model is not that of the checkpoint.*size mismatch.*export"):
        other(layer=(8, 4)).restore()
    with pytest.raises(InvalidError, match="state of 1 optimizer.*has 2"):
        other(optimizers=2).restore()
    for made, what in ((torch.optim.AdamW, "optimizer 0"), (torch.optim.lr_scheduler.StepLR, "scheduler")):
        def load(self, state):
            raise KeyError("step")

        monkeypatch.setattr(made, "load_state_dict", load)
        with pytest.raises(InvalidError, match=f"{what} is not that of the checkpoint: KeyError: 'step'"):
            other().restore()
        monkeypatch.undo()
    made = other()
    made._optimizers[0].param_groups[0]["params"].pop()
    with pytest.raises(InvalidError, match='parameter 3 of optimizer 0 is "1.bias" in the checkpoint, and here none'):
        made.restore()


def test_what_rw_save_has_kept_is_restored_where_no_part_is_named():
    first = Training(Session())
    first.step()
    assert training_functions.save(first.model, first.optimizer, {"step": 1}) is True
    then = Training(Session(dict(first.optimizer.session.items)))
    assert then.checkpoint(scheduler=None, average=None, counts=None).restore() == 0
    assert training_functions.resume(then.model, then.optimizer) == {"step": 1}


def test_wrong_use_is_refused():
    training = Training(Session())
    with pytest.raises(InvalidError, match="evry= is a int: a part of a checkpoint has"):
        training.checkpoint(evry=10)
    with pytest.raises(InvalidError, match="not the AdamW that it wraps"):
        checkpoint.Checkpoint(training.model, training.inner)
    for every in (0, "often", 1.5):
        with pytest.raises(InvalidError, match="at least 1 step"):
            checkpoint.Checkpoint(training.model, training.optimizer, every=every)
    with pytest.raises(InvalidError, match="progress= is a dict: .*another name"):
        training.checkpoint(progress={"best": 0.0})
    with pytest.raises(InvalidError, match="state/counts/rows is a object"):
        training.checkpoint(counts={"rows": object()}).save()


def test_a_schedule_that_logged_steps_would_not_move_is_refused():
    first = Training(Session())
    first.checkpoint().save()
    then = Training(Session(dict(first.optimizer.session.items)))
    then.optimizer.session.replays = 4
    with pytest.raises(RefusedError, match="4 steps after the checkpoint, and average, counts, scheduler would not"):
        then.checkpoint().restore()


def test_a_checkpoint_that_fails_is_told(capsys):
    training = Training(Session())
    training.step()
    training.optimizer.session.failure = UnavailableError("the store is gone")
    assert training.checkpoint().step() is False
    assert "no checkpoint of step 1: the store is gone" in capsys.readouterr().err


def test_progress_is_told_when_it_changes():
    training, told = Training(Session()), []
    saving = checkpoint.Checkpoint(training.model, training.optimizer, every=2, progress=told.append)
    for step, seen in enumerate(("a", "a", "b", "b"), 1):
        training.optimizer.session.checkpoint_progress = seen
        training.step()
        saving.step()
    assert told == ["a", "b"]


class Later(snapshot.Snapshot):
    """As with CUDA tensors: copies run until somebody waits."""
    running = False

    def take(self, items, steady):
        self.running, self.steady = True, steady
        return items

    def wait(self):
        self.running = False


@pytest.fixture
def later(monkeypatch):
    leaving = []
    monkeypatch.setattr(checkpoint.job, "current", lambda: SimpleNamespace(leaving=leaving))
    training = Training(Session())
    saving = training.checkpoint()
    saving._snapshot = Later()
    training.step()
    return training, saving, training.optimizer.session, leaving


def test_copies_that_run_are_handed_over_before_the_next_gradient(later):
    training, saving, session, leaving = later
    assert saving.save() is True and session.saved == [] and saving._snapshot.running
    assert saving._snapshot.steady >= {"model/0.weight", "optimizers/0/state/0/exp_avg"}
    assert not any("average" in name or "running" in name for name in saving._snapshot.steady)
    training.optimizer.before_gradients.pop()()
    assert session.saved == [1] and not saving._snapshot.running


def test_copies_that_run_are_handed_over_to_whoever_waits_and_at_the_end(later):
    training, saving, session, leaving = later
    saving.save()
    saving.wait()
    assert session.saved == [1]
    session.step = 2
    saving.save()
    assert session.saved == [1]
    saving.save()
    assert session.saved == [1, 2], "the one before first, which is this step's"
    session.step = 3
    saving.save()
    leaving.pop()()
    assert session.saved == [1, 2, 3]


class Stream:
    def __init__(self, told, name):
        self.told, self.name = told, name

    def wait_stream(self, other):
        self.told.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def device(monkeypatch):
    """A device that is not there: every tensor is on it."""
    told, current = [], []
    current.append(Stream(told, "current"))

    class Use:
        def __init__(self, stream):
            self.stream = stream

        def __enter__(self):
            current.append(self.stream)

        def __exit__(self, *_):
            current.pop()

    class Event:
        def record(self, stream):
            self.stream = stream
            told.append(f"event on {stream.name}")

        def synchronize(self):
            told.append(f"wait for {self.stream.name}")

    monkeypatch.setattr(snapshot, "on_device", torch.is_tensor)
    monkeypatch.setattr(snapshot.Snapshot, "_place", lambda self, name, value: torch.zeros_like(value))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current[-1])
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream(told, "side"))
    monkeypatch.setattr(torch.cuda, "stream", Use)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    return told


def test_what_only_the_step_changes_is_copied_beside_it(device):
    taken = snapshot.Snapshot()
    items = {"model/w": torch.ones(3), "model/running_mean": torch.full((2,), 2.0), "skeleton": b"{}"}
    copies = taken.take(items, {"model/w"})
    assert device == ["side waits for current", "event on side", "event on current"] and taken.running
    assert copies["skeleton"] == b"{}" and all(torch.equal(copies[name], items[name]) for name in list(items)[:2])
    assert copies["model/w"] is not items["model/w"]
    taken.wait()
    assert sorted(device[3:]) == ["wait for current", "wait for side"] and not taken.running
