"""Checkpoints of a training loop: one object that names all that a resume needs.

    checkpoint = rw.Checkpoint(model, optimizer, sampler=sampler, scheduler=scheduler, every=100)
    rw.broadcast_parameters(model.state_dict())
    start = checkpoint.restore()                      # committed steps; 0: a new job
    for step in range(start, steps):
        ...
        optimizer.step()
        scheduler.step()
        checkpoint.step()                             # last in the loop's body: saves when one is due

Shared by all ranks: weights, the optimizers' states, the parts. Own of each rank: the states of the random generators,
and what else differs from rank to rank, such as the running statistics of BatchNorm; digests are compared at every
save, so all ranks save together. Residuals, velocities of sparse tensors and the step are added by the library.
"""

import contextlib
import itertools
import sys
import time

import numpy as np
import torch

from . import ending, job
from .agreement import differing, differing_digests, digest_of, digest_of_tree, repeated
from .content import refuse_sparse
from .errors import AbortedError, ForkedError, InvalidError, RefusedError, RingwoodError
from .imported import imported_header, load_imported
from .layout import own_items, read_own, read_shared, shared_items
from .parts import Parts
from .random_state import random_state, set_random_state
from .snapshot import Snapshot

_WAY_OUT = "make it as it was. For the weights alone: `ringwood checkpoint export`, and `import` for a new job"
LOCAL = "local_steps/{}"  # a part: what is one rank's own of an optimizer


class Checkpoint:
    """`optimizer`: a DistributedOptimizer, or a list of them, of which the first one's steps count. `every`: so many
    committed steps, or "auto": the session says when, by what checkpoints cost and how often ranks fail
    (docs/reliability.md). `progress`: called in step() with the session's CheckpointProgress when that has changed.
    Any further keyword names a part: `sampler`, `scheduler`, `scaler`, an average of the weights, or whatever has
    state_dict() and load_state_dict(), or a dict of numbers and texts, which restore() fills in.

    All calls from the training thread, on all ranks alike. Wrong use raises InvalidError or RefusedError; a checkpoint
    that fails (a full disk, a store that is gone) does not end the training: it is told on standard error, the one
    before stays, and wait() raises why."""

    def __init__(self, model, optimizer, every="auto", progress=None, **parts):
        self._model, self._optimizers = model, list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer]
        for each in self._optimizers:
            if not hasattr(each, "session"):
                raise InvalidError(f"a checkpoint needs the DistributedOptimizer, not the {type(each).__name__} that it "
                                   "wraps")
        if every != "auto" and (not isinstance(every, int) or every < 1):
            raise InvalidError(f'every={every!r}: at least 1 step, or "auto"')
        if progress is not None and not callable(progress):
            raise InvalidError(f"progress= is a {type(progress).__name__}: it is what step() calls with a "
                               "CheckpointProgress; give the part another name")
        # What is one rank's own in an optimizer that trains between exchanges (LocalSteps).
        self._local = [each for each in self._optimizers if hasattr(each, "local")]
        parts.update((LOCAL.format(index), each.local) for index, each in enumerate(self._local))
        self._every, self._parts = every, Parts(parts)
        # In whatever order they are listed; its results say when a checkpoint is due and when to end.
        self._leader = next((each for each in self._optimizers if each.leads), self._optimizers[0])
        self._session = self._leader.session
        self._snapshot, self._items = Snapshot(), None
        self._progress, self._told = progress, None
        self._failed_at = None  # the step of which this rank has no checkpoint, although it tried
        self._saved_steps = []  # of each in _local, when it was saved last

    # ---- saving ----

    def step(self):
        """After each optimizer.step(), and after what else the loop does in a step: saves where a checkpoint is due.
        Returns whether this step's is on its way."""
        self._tell()
        self.end_if_asked(self.save)
        return self.save_if_due(self.save)

    def save_if_due(self, save):
        """A rank that was away while it saved is where the others are now, and saves what is due there."""
        return any(self.due and save() for _ in range(2))

    def end_if_asked(self, save):
        """After a step, as step() does: where a rank was asked to end by SIGTERM, all ranks save, wait for it, and leave
        the program with 75. In an elastic job those leave that were asked, the others go on."""
        optimizer = self._leader
        ending.listen(self._session)
        if not (optimizer.last and optimizer.last.ending):
            return
        if not optimizer.followed or self._session.step != optimizer.committed_before:
            ending.end_as_asked(self._session, save, self.wait, job.stop, optimizer.followed)

    @property
    def due(self):
        """Whether step() would save now; alike on all ranks."""
        optimizer, step = self._leader, self._session.step
        if step in (optimizer.committed_before, optimizer.saved_at):
            return False  # a pass between two exchanges
        if step == optimizer.saving_at:
            return True
        if self._every == "auto":
            return bool(optimizer.last and optimizer.last.checkpoint_due)
        # Where a GradScaler leaves steps out, step() has not begun since the last one that it did not.
        before = max(optimizer.committed_before, optimizer.saved_at or 0)
        return step // self._every != before // self._every

    def save(self):
        """Copies the state as it is and lets it travel to the store in the background. What is in host memory is copied
        when it returns. CUDA tensors are copied beside the next forward, and handed over before the next gradient
        leaves: until then nothing but optimizer.step() may change parameters. A save waits for the one before, and if
        that is this step's, as at the end of a loop whose step() has saved, it is enough. Returns False if there is no
        checkpoint of this step."""
        if self._items is not None:
            self._hand_over()
        return self._has_saved() or self.save_with({}, later=True)

    def _has_saved(self):
        """Whether this step's checkpoint is complete, for all ranks. Of a round of LocalSteps there is one, too; a save waits for
        the round that is under way, and belongs to that."""
        session = self._session
        if self._leader.saved_at != session.step or any(each.local.waiting for each in self._local):
            return False
        try:
            session.checkpoint_wait()
        except RingwoodError:  # it was told on standard error
            self._failed_at = session.step
        well = np.array([self._failed_at != session.step], np.uint8)
        all_well = repeated(session, lambda: session.allreduce(well.copy(), "min"))
        if all_well is None or not all_well[0]:
            return False
        steps = max((each.local.steps - saved for each, saved in zip(self._local, self._saved_steps)), default=0)
        if steps and session.rank == 0:
            sys.stderr.write(f"W rank {session.slot}: the checkpoint of step {session.step} was complete before this save: "
                             f"{steps} step(s) since then are not in it. The next round's has them\n")
        return True

    def save_with(self, cursor, later=False):
        """The same with a cursor, as rw.save has it. `later`: CUDA tensors may be handed over later."""
        try:
            self._items = self._collect(cursor)
        except (InvalidError, RefusedError, ForkedError):
            raise
        except RingwoodError as failure:
            return self._failed(failure)
        if not (later and self._snapshot.running):
            return self._hand_over()
        for calls in (self._leader.before_gradients, job.current().leaving):  # the latter where no gradient follows
            if self._hand_over not in calls:
                calls.append(self._hand_over)
        return True

    def wait(self):
        """Until the newest checkpoint is durable on all ranks; raises its error, once."""
        self._hand_over()
        try:
            self._session.checkpoint_wait()
        except RingwoodError:
            self._failed_at = self._session.step
            raise
        self._tell()

    def _collect(self, cursor):
        """(shared items, per-rank items), whose copies may still be running."""
        if any([each.local.settle() for each in self._local]):
            raise AbortedError("this rank was away while the others went on")
        # A round that was settled is in it. Until the session has it, this rank has no checkpoint of this step.
        self._leader.saved_at = self._failed_at = self._session.step
        self._saved_steps = [each.local.steps for each in self._local]
        state = self._state_of_model()
        parts = self._parts.states()
        trained = {p.data_ptr() for each in self._optimizers for group in each.param_groups for p in group["params"]}
        steady = {f"model/{name}" for name, value in state.items() if torch.is_tensor(value) and value.data_ptr() in trained}
        own, own_parts = self._take_own(state, parts, set() if self._local else trained)
        shared = shared_items({"model": state, "optimizers": [each.shared_state() for each in self._optimizers],
                               "cursor": cursor, "parts": parts, "world": self._session.world,
                               "trained": self._trained()})
        steady.update(name for name in shared if name.startswith("optimizers/"))
        per_rank = own_items(own, own_parts)
        return self._snapshot.take(shared, steady), self._snapshot.take(per_rank, steady)

    def _state_of_model(self):
        state = dict(self._model.state_dict())
        for name, value in state.items():
            if torch.is_tensor(value):
                refuse_sparse(name, value)
        return state

    def _trained(self):
        """The names of each optimizer's parameters, in its order: its state has numbers in their place."""
        names = {id(parameter): name for name, parameter in self._model.named_parameters()}
        return [[names.get(id(p), "") for group in each.param_groups for p in group["params"]] for each in self._optimizers]

    def _take_own(self, state, parts, alike):
        """Removes what differs from rank to rank and returns it. `alike`: pointers of what is the same everywhere."""
        names = [name for name, value in state.items()
                 if torch.is_tensor(value) and value.numel() and value.data_ptr() not in alike]
        different = iter(differing_digests(self._session, [*(digest_of(state[name]) for name in names),
                                                           *(digest_of_tree({name: part})
                                                             for name, part in parts.items())]))
        own = {name: state.pop(name) for name in names if next(different)}
        return own, {name: parts.pop(name) for name in list(parts) if next(different)}

    def _hand_over(self):
        """The items that were collected become the session's; False: it has none."""
        items, self._items = self._items, None
        if items is None:
            return False
        self._snapshot.wait()
        if self._session.closed:
            return False
        try:
            self._session.checkpoint(shared=items[0], per_rank=items[1])
        except (InvalidError, RefusedError, ForkedError):
            raise
        except RingwoodError as failure:
            return self._failed(failure)
        self._failed_at = None
        return True

    def _failed(self, failure):
        self._failed_at = self._session.step
        sys.stderr.write(f"W rank {self._session.slot}: no checkpoint of step {self._session.step}: {failure}\n")
        return False

    def _tell(self):
        if self._progress is None:
            return
        now = self._session.checkpoint_progress
        if now != self._told:
            self._told = now
            self._progress(now)

    # ---- restoring ----

    def restore(self, before_step=None, after_step=None):
        """If the session started from a checkpoint, everything is as it was then; the world may be another one. Returns
        the committed steps, from which the training goes on: 0 in a new job. After making the DistributedOptimizers
        and rw.broadcast_parameters, before the first step.

        With an update log the steps after the checkpoint are done again (DistributedOptimizer.replay says what
        `before_step` and `after_step` are), so that no committed step is lost. The sampler follows by itself; other
        parts (a scheduler, an average of the weights) need `after_step`, which does what the loop does after step().
        Random generators, and buffers that are no parameters, stay the checkpoint's.

        From an imported checkpoint (`ringwood checkpoint import`) the model gets its weights, all of them; the rest
        stays as it is."""
        session = self._session
        if session.resumed and session.replays and after_step is None:
            self._parts.refuse_unfollowed(session.replays, self._leader.scaler)
        self.restore_cursor(before_step, after_step)
        return session.step

    def restore_cursor(self, before_step, after_step):
        """The same; returns the cursor, or None if there is none."""
        session, cursor = self._session, None
        self._state_of_model()  # what cannot be saved is told at the start
        if session.logged and len(self._optimizers) > 1:
            raise RefusedError(f"the update log has the gradients of one DistributedOptimizer, there are "
                               f"{len(self._optimizers)}: start without --update-log"
                               f"{f', which gives {session.replays} steps up' if session.replays else ''}")
        if not session.resumed:
            if session.logged and not session.receiving:
                self._save_start()
            return None
        header = imported_header(session)
        if header is None:
            cursor = self._load()
        else:
            load_imported(session, self._model, header)
        if session.replays:
            self._replay(before_step, after_step)
        for sampler in self._parts.samplers:  # now, as logged steps are of the ranks of then
            sampler.divide_anew()
        if header is None:
            self._keep_random_state()
        return cursor

    def _keep_random_state(self):
        """Until the first batch of an iteration that goes on in the middle of a pass: to make one more iterator there takes
        a number from PyTorch's generator."""
        session, step, state = self._session, self._session.step, random_state()
        for sampler in self._parts.samplers:
            sampler.resumed(lambda: set_random_state(state) if not session.closed and session.step == step else None)

    def _load(self):
        session = self._session
        state = read_shared(session)
        parts = state.get("parts", {})
        own = repeated(session, lambda: read_own(session, state.get("world", session.world)))
        if own is None:  # this rank was away: the others' state comes with its first step
            return None
        state["model"].update(own["model"])
        parts.update(own["parts"])
        self._parts.refuse_others(parts)
        if len(state["optimizers"]) != len(self._optimizers):
            raise InvalidError(f"the checkpoint has the state of {len(state['optimizers'])} optimizer(s), and this program "
                               f"has {len(self._optimizers)}: give the same ones")
        with _translated("the model"):
            self._model.load_state_dict(state["model"])
        _refuse_others(state.get("trained", []), self._trained())
        for index, (each, saved) in enumerate(zip(self._optimizers, state["optimizers"])):
            with _translated(f"optimizer {index}"):
                each.load_state_dict(saved)
        for name in self._parts:
            with _translated(name):
                self._parts.load(name, parts[name])
        return state["cursor"]

    # ---- the update log ----

    def _save_start(self):
        """Before the first step: what is logged leads on from a checkpoint."""
        session = self._session
        parameters = [p for each in self._optimizers for group in each.param_groups for p in group["params"]]
        different = repeated(session, lambda: differing(session, parameters))
        if different is None:
            return
        if any(different):
            if session.rank == 0:
                sys.stderr.write(f"W rank {session.slot}: no checkpoint before the first step, as the ranks' parameters "
                                 "differ: call rw.broadcast_parameters before they are restored. Until the first "
                                 "checkpoint a job that loses all its processes begins anew, in spite of --update-log\n")
            return
        if self.save_with(None):
            try:
                session.checkpoint_wait()
            except RingwoodError as failure:
                sys.stderr.write(f"W rank {session.slot}: no checkpoint before the first step: {failure}\n")

    def _replay(self, before_step, after_step):
        session, optimizer = self._session, self._leader
        samplers = [] if optimizer.followed else self._parts.samplers

        def after():
            for sampler in samplers:
                sampler.committed(optimizer.last)
            if after_step is not None:
                after_step()

        first, began = session.step, time.monotonic()
        count = optimizer.replay(before_step, after)
        if session.rank != 0:
            return
        sys.stderr.write(f"I rank {session.slot}: resumed at step {session.step}: the checkpoint of step {first}, and "
                         f"{count} logged steps replayed in {time.monotonic() - began:.1f} s\n")
        trained = {p.data_ptr() for group in optimizer.param_groups for p in group["params"]}
        kept = [name for name, value in self._model.state_dict(keep_vars=True).items()
                if torch.is_tensor(value) and value.numel() and value.data_ptr() not in trained]
        if kept:
            sys.stderr.write(f"W rank {session.slot}: not replayed, and as in the checkpoint of step {first}: random "
                             f"generators, and {len(kept)} buffer(s): {', '.join(kept[:6])}"
                             f"{', …' if len(kept) > 6 else ''}\n")


def _refuse_others(saved, here):
    """`saved`: as _trained gives it; nothing in checkpoints of older versions."""
    for index, optimizers in enumerate(zip(saved, here)):
        for at, pair in enumerate(itertools.zip_longest(*optimizers)):
            if pair[0] != pair[1]:
                was, now = (f'"{name}"' if name else "none of the model" for name in pair)
                raise InvalidError(f"parameter {at} of optimizer {index} is {was} in the checkpoint, and here {now}: {_WAY_OUT}")


@contextlib.contextmanager
def _translated(what):
    """What PyTorch says of state that does not fit becomes an error that no restart mends."""
    try:
        yield
    except RingwoodError:
        raise
    except Exception as failure:
        raise InvalidError(f"{what} is not that of the checkpoint: {type(failure).__name__}: {failure}: {_WAY_OUT}") from failure
