"""DistributedOptimizer: any torch optimizer, its gradients averaged over all ranks before each step.

A hook on every parameter tells the session that its gradient is complete, while backward is still
running; backward returns after the commit, with the averages in the gradients, and `step()` lets the wrapped
optimizer update the weights.
"""

import contextlib
import itertools
import sys

import torch

from .agreement import differing, repeated
from .ddp import refuse_beside
from .errors import AbortedError, InvalidError, RefusedError, RingwoodError
from .gradients import Gradients
from .recipe import recipes_of, wire_reach_of
from .replay import Changes, Note, note_of
from .slot import exchanged_as, is_empty, once, pairs_of, slot_of, types_of
from .velocity import TakenOver, Velocity
from .wrapper import OptimizerWrapper, refuse_kind, refuse_wrapped

LATER_LOOKS = (16, 256, 4096)  # exchanges before which the ranks' parameters are compared, beside the first


class DistributedOptimizer(OptimizerWrapper):
    """Looks and behaves like the optimizer it wraps; learning rate schedulers may hold it.

    `named_parameters`: as of the model, the same order on every rank. Gradients are exchanged densely unless
    sparse is asked for: by `density`, the share of a tensor's entries that a step sends where that pays
    (`route` "auto"), or by `route` "sparse"; a parameter group may hold its own "route", "density",
    "momentum_correction" and "clip_norm". `missing`: what to do with a parameter that got no gradient in a
    step: "error" names it, "zero" sends zeros, "skip" leaves it alone if no rank has one: neither weight decay nor
    the optimizer's momentum changes it. Where earlier steps held back something of its gradients (a residual of a
    sparse tensor or of a wire of few bits, a velocity of momentum correction), that still comes as an average, and
    the optimizer takes it like any other, with weight decay and momentum.

    `momentum_correction`: left out, SGD's own momentum is taken below the selection of sparse tensors, and
    other optimizers have none (recipe.py).

    `clip_norm`: sparse tensors' gradients are clipped before they gather in the residual, each rank's to the
    norm clip_norm / sqrt(world); None: what the session has.

    `weight`: samples of this rank in the step, to be set before backward; the average is weighted by it.
    With 0 the backward may be left out. With rw.elastic the sampler says it, and only a 0 is heeded, for one step.
    Gradients of several passes are summed as PyTorch does; divide the loss if you want their mean.
    `backward_passes_per_step` has them exchanged once, at the last pass.

    `scaler`: the GradScaler that multiplies the loss. Its factor is divided out of what is sent, since
    residuals must outlive it, and multiplied back into the averages for the scaler's unscale_.

    `device_tensors`: "stage" sends CUDA gradients through host memory, "in_place" refuses to, "auto" (what
    RINGWOOD_DEVICE_TENSORS says, if anything) exchanges them in place where that is possible on all ranks.
    """

    how_to_freeze = ', with missing="skip"'

    def __init__(self, job, optimizer, named_parameters, density=None, momentum_correction=None,
                 route=None, backward_passes_per_step=1, missing="error", scaler=None,
                 clip_norm=None, device_tensors="auto"):
        if missing not in ("error", "zero", "skip"):
            raise InvalidError(f'missing="{missing}": choose error, zero or skip')
        if backward_passes_per_step < 1:
            raise InvalidError("backward_passes_per_step must be at least 1")
        refuse_wrapped(optimizer)
        refuse_kind(optimizer)
        trained = _trained(optimizer, named_parameters)
        recipes = recipes_of(optimizer, trained, route, density, momentum_correction, clip_norm)
        settings = {name: recipe.settings for name, recipe in recipes.items()}
        scaler = scaler if scaler is not None and scaler.is_enabled() else None
        stream = job.exchange_stream(device_tensors, trained.values(), settings.values())
        slots = [slot_of(name, parameter, stream, scaler is not None,
                         dtype=exchanged_as(parameter, job.session, recipes[name], scaler is not None))
                 for name, parameter in trained.items()]
        self.inner = optimizer
        self.weight = 1.0
        self.missing = missing
        self.session = job.session
        self._exchange = job.register("DistributedOptimizer", slots, settings, stream, wire_reach_of(optimizer), missing=missing,
                                      backward_passes_per_step=backward_passes_per_step, **types_of(trained))
        self._training = None  # the Elastic that it belongs to, see follow
        self.before_gradients = []  # each called once, before the next step's first gradient is announced
        self.last = None  # the StepResult of the last step
        self.committed_before = self._committed = self.session.step  # steps of the session when step() began
        self._counts = [0.0, 0.0, 0.0, 0.0]
        self._scaler = scaler
        self.sums = None       # Horovod's op=Sum: what makes the averages sums (horovod_calls/sums.py)
        self.averaged = False  # the gradients are averages that were not used yet
        self._by_hand = False  # synchronize() was called for them
        self.passes = 0        # exchanged since the last step()
        self._again = 0        # exchanges of gradients that held an average already
        self._changes = Changes(scales=scaler is not None)
        self._told_of_drop = self._told_of_rest = False
        self._rest = _held_back_of(self.session, slots) if self.leads else ""
        self._corrected = any(recipe.momentum or recipe.velocity for recipe in recipes.values())
        self._absent = []      # indices of parameters that the step leaves alone
        self._empty = [p for group in optimizer.param_groups for p in group["params"] if is_empty(p)]
        self._gradients = Gradients(self, self._exchange, job.backward, slots, stream, backward_passes_per_step,
                                    scaler)
        job.leaving.append(self._gradients.leave)
        self._velocity = Velocity(self._exchange, slots,
                                  {name: recipe.velocity for name, recipe in recipes.items()})
        self._taken_over = TakenOver(self._exchange, optimizer, {name: trained[name] for name, recipe in recipes.items()
                                                               if recipe.taken_over})

    # ---- what a torch optimizer has ----

    def __repr__(self):
        return f"DistributedOptimizer({self.inner!r})"

    def zero_grad(self, set_to_none=None):
        """`set_to_none`: left out, gradients in host memory are zeroed where they are; where a parameter is on a device
        all are let go, as PyTorch's own zero_grad does: there to zero them and to add to them costs two kernels a
        parameter."""
        self._gradients.refuse_if_running("zero_grad()")
        if self.averaged and not self.last.skipped:
            self._drop()
        self.end_step()
        self.inner.zero_grad(set_to_none=self._gradients.on_device if set_to_none is None else set_to_none)
        self._gradients.let_go()

    def step(self, closure=None):
        """Updates the parameters, after an exchange if backward did none. A step that is skipped for a NaN or
        Inf on any rank changes nothing on any rank; `last.skipped` tells. An error changes nothing."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._by_hand:
            self._refuse_scaled()
        if not self.averaged:
            self.exchange()
        self._refuse_late_weight()
        # A rank that was away for some steps is where the others are: what is due is so on all of them.
        self.committed_before = self.last.step - 1 if self.last.received else self._committed
        self._committed = self.session.step
        if self.sums is not None and not self.last.skipped:
            self.sums.settle()
        self.end_step()
        self.passes = 0
        self._changes.used(self.param_groups)
        if not self.last.skipped:
            self._update()
        return loss

    def _drop(self):
        """No step uses the averages. The update log has them already."""
        self._changes.drop()
        if self._rest and self.session.rank == 0 and not self._told_of_rest:
            self._told_of_rest = True
            sys.stderr.write(f"W rank {self.session.slot}: the averages of step {self.session.step} were dropped by zero_grad(), "
                             f"and what was held back of their gradients ({self._rest}) comes with later averages. Keep such "
                             "a backward from being exchanged, by requires_grad_(False) or optimizer.no_sync(), or train "
                             "densely, in fp32\n")
        if self.session.logged and self.leads and self.session.rank == 0 and not self._told_of_drop:
            self._told_of_drop = True
            sys.stderr.write(f"W rank {self.session.slot}: the averages of step {self.session.step} were dropped by zero_grad(), "
                             "and the update log has them: until the next checkpoint no step can be replayed. Call "
                             "checkpoint.save() after a step that is left out, or start without --update-log\n")

    def _update(self):
        # Empty parameters get no state: the ranks whose backward has used one would be those that have it.
        absent = [self._gradients.slots[index].parameter for index in self._absent]
        with self._gradients.hidden(absent + self._empty):
            self.inner.step()
            self._taken_over.after_step()

    def replay(self, before_step=None, after_step=None):
        """Does the steps of the update log again, if there are any: on every rank, after the checkpoint is restored and
        before the first backward. Returns how many. `before_step`: what the loop does between backward and step(),
        such as clipping the gradients; `after_step`: what it does after step(), such as averaging weights. Learning
        rates and the other numbers of the groups come from the log, and so does the state of the `scaler`, whose step and
        update are done here."""
        count = 0
        if self._scaler is not None and self.session.replays:
            self._scaler.scale(self._gradients.slots[0].parameter.new_zeros(()))  # which makes what its unscale_ needs
        while self.session.replays:
            self._gradients.hold()  # each time: after_step may let them go
            replayed = repeated(self.session, self.session.replay)
            if replayed is None:  # this rank was away: the others' state comes with its first step
                break
            self.last, content = replayed
            note = Note(content)
            if note.dropped and count:
                raise RefusedError(f"the loop left out step {self.last.step - 1} of the update log: it dropped the averages by "
                                   "zero_grad(), without step(). A replay cannot know that in time: start without "
                                   "--update-log, which gives the steps after the checkpoint up. So that it is none the next "
                                   "time, call checkpoint.save() after such a step")
            if note.changed and before_step is None:
                raise RefusedError("the loop changed gradients between backward and step(), as clip_grad_norm_ and unscale_ "
                                   "do, or the learning rate: the update log has what there was before that. Give "
                                   "before_step= what it did")
            note.set_groups(self.param_groups)
            note.set_scaler(self._scaler)
            self._gradients.take_scale()
            self._gradients.weight = self.weight
            self._settle(note.absent)
            self.averaged = self._by_hand = True
            if before_step is not None:
                before_step()
            if self._scaler is None:
                self.step()
            else:
                self._scaler.step(self)
                self._scaler.update()
            if self._training is not None:
                self._training.replayed(self.last)
            if after_step is not None:
                after_step()
            count += 1
        self.end_step()
        return count

    def synchronize(self):
        """The gradients hold the average of all ranks when it returns. After a backward that made all of the
        step's gradients they do without it."""
        if not self.averaged:
            self.exchange()
        self._by_hand = True
        return self.last

    def follow(self, training):
        """From now on `training` (an Elastic) says the weight of each step, is told of its commit, and gives and takes
        the state."""
        if self.missing == "skip":
            raise RefusedError('missing="skip" asks all ranks in every step, which cannot be repeated when one dies: '
                               'choose "error" or "zero"')
        if self._exchange is not self.session:
            raise RefusedError("rw.elastic takes the process's first DistributedOptimizer: the gradients of further "
                               "ones are summed outside of the steps that commit")
        self._training = training

    @property
    def weight(self):
        return self._weight

    @weight.setter
    def weight(self, samples):
        self._weight, self._left_out = samples, samples == 0

    @property
    def scaler(self):
        """The GradScaler whose state is in the update log; or None."""
        return self._scaler

    @property
    def followed(self):
        """Whether an Elastic is told of every step."""
        return self._training is not None

    def weigh(self):
        """Before a step's first gradient is announced."""
        while self.before_gradients:
            self.before_gradients.pop()()
        if self._training is not None and not self._left_out:
            samples = self._training.weight
            self._weight = samples if self.sums is None else min(samples, 1)  # Horovod's sum is one of ranks

    def _finish_step(self):
        if self._training is None:
            return self._exchange.finish_step()
        return self._training.finish_step()

    def exchange(self):
        """Announces missing gradients and waits for the commit."""
        try:
            self._exchange_all()
        except RingwoodError:
            raise
        except BaseException:  # of Ctrl-C, or of a script's handler of a signal
            self._gradients.exchange_interrupted()
            raise

    def _exchange_all(self):
        if not self._gradients.running:
            self.weigh()
        self._refuse_strangers(self._gradients.known)
        if not self._counts[0]:
            refuse_beside({slot.name: slot.parameter for slot in self._gradients.slots})
        absent = self._gradients.complete(self.weight)
        self._compare_parameters()
        if self.session.logs and self._exchange is self.session:
            self.session.note(note_of(self.param_groups, self._scaler, absent, self._changes))
        self.last = self._finish_step()
        self.passes += 1
        self._left_out = self._changes.dropped = False
        for i, count in enumerate((1, self.last.dense_bytes, self.last.sparse_bytes,
                                   self.last.dense_equivalent_bytes)):
            self._counts[i] += count
        if self.last.received:
            self._gradients.take_scale()  # the others' has come with their state
        self._settle(absent)
        if self.session.logs:
            self._changes.averaged([slot.parameter for slot in self._gradients.slots], self.param_groups)
        self.averaged = True

    def _settle(self, absent):
        """After a commit. `absent`: indices of parameters that no rank had a gradient for. Those without elements have one
        on all ranks, whose backward used one, and in a replay: the bits of a norm of all gradients depend on their number."""
        for parameter in self._empty:
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._absent = self._gradients.finished(self.last.skipped, self._velocity, absent)
        if self.sums is not None and not self.last.skipped:
            self.sums.averaged(self.last.total_weight)

    def _compare_parameters(self):
        """Compares the ranks' parameters: they differ if broadcast_parameters was forgotten, or if ranks do not
        step alike."""
        exchanges = int(self._counts[0])
        if self._training is not None and (self.session.step > 0 or self.session.receiving):
            return  # ranks may have come later: they count other exchanges
        if exchanges and exchanges not in LATER_LOOKS:
            return
        slots = self._gradients.slots
        try:
            different = differing(self.session, [slot.parameter for slot in slots])
        except AbortedError:
            if self._training is None:
                raise
            return  # a rank has died or come: the step goes on with those that are there
        if not any(different):
            return
        names = self._gradients.names(different)
        if not exchanges:
            raise RefusedError(f"{sum(different)} of {len(slots)} parameters differ from rank to rank before the "
                               f"first step: {names}. Call rw.broadcast_parameters(model.state_dict()) after "
                               "making the model")
        if self.session.rank == 0:
            sys.stderr.write(f"W rank {self.session.slot}: after {exchanges} exchanges {sum(different)} of {len(slots)} "
                             f"parameters differ from rank to rank: {names}. Do all ranks call backward and step equally "
                             "often?\n")

    @property
    def leads(self):
        """Not where it is a further one of the process."""
        return self._exchange is self.session

    def average_again(self):
        """Another backward adds to averages that no step has used, so the sum is exchanged again. Averaging an
        average changes nothing: the result is that of one exchange, at the cost of two."""
        why_not = ("whose momentum would count twice" if self._corrected else
                   "under an update log, which would replay each exchange as a step" if self.session.logged and self.leads
                   else None)
        if why_not:
            raise RefusedError(
                f"backward() after the gradients were averaged, {why_not}: call step() or optimizer.zero_grad() after every "
                "backward, or set backward_passes_per_step=N, or put all passes but the last into optimizer.no_sync()")
        self._gradients.took_averages(self._absent)
        self.averaged = self._by_hand = False
        self._again += 1
        if self._again == 10 and self.session.rank == 0:
            rest = (f", and what was held back of the zeroed ones ({self._rest}) comes with later averages: train densely, in "
                    "fp32" if self._rest else "")
            sys.stderr.write(f"{'W' if rest else 'I'} rank {self.session.slot}: backward() comes again before step() has used the "
                             "averages, and each of a step's passes is exchanged. Where their gradients add up, "
                             "backward_passes_per_step=N or optimizer.no_sync() exchanges once. Where they are zeroed in "
                             f"between, as SAM's are, each has to be{rest}\n")

    def join(self, after_step=None):
        """For a rank whose data ends before that of others: takes part without samples until all ranks have come here,
        and returns how many steps that were. The last call of every rank; on the last one that comes it takes one
        exchange. `after_step`: what else each step of the loop does, such as scheduler.step."""
        self._gradients.refuse_if_running("join()")
        if self._training is not None:
            raise RefusedError("join() with rw.elastic: its sampler ends on all ranks with the same step")
        if self._scaler is not None:
            raise RefusedError('join() with a GradScaler: let the rank set optimizer.weight = 0 and step through '
                               'the scaler until optimizer.last.total_weight is 0')
        own = self.weight
        for steps in itertools.count():
            self.weight = 0.0
            self.zero_grad()
            self.step()
            if self.last.total_weight == 0:
                self.weight = own
                self.zero_grad()  # an average of no samples is NaN, to which the next backward would add
                return steps
            if after_step is not None:
                after_step()

    @contextlib.contextmanager
    def skip_synchronize(self):
        """Horovod's context for a step after synchronize(); step() does not need it."""
        if not self._by_hand:
            raise RefusedError("skip_synchronize() without synchronize() before it")
        yield

    @contextlib.contextmanager
    def no_sync(self):
        """Backward passes inside it accumulate gradients locally."""
        before, self._gradients.quiet = self._gradients.quiet, True
        try:
            yield
        finally:
            self._gradients.quiet = before

    def state_dict(self):
        """The wrapped optimizer's, and under "ringwood" the velocity of the dense tensors. (Residuals
        and velocities of sparse tensors differ from rank to rank: they are in Ringwood's checkpoints.)"""
        return {**self.inner.state_dict(), "ringwood": {"velocity": dict(self._velocity.of)}}

    def load_state_dict(self, state):
        state = dict(state)
        velocity = state.pop("ringwood", {}).get("velocity", {})
        self.inner.load_state_dict(state)
        self._velocity.load(velocity)

    def traffic(self):
        """[steps, dense bytes, sparse bytes, bytes if all were dense], sent by this rank so far."""
        return list(self._counts)

    def end_step(self):
        """The gradients were used or dropped, or a scaler skipped the step."""
        self._gradients.forget()
        self.averaged = self._by_hand = False
        if self.sums is not None:
            self.sums.used()

    # ---- inside ----

    def _refuse_scaled(self):
        if self._scaler is not None:
            raise RefusedError("step() with gradients that carry a GradScaler's factor: call "
                               "scaler.step(optimizer) with a ringwood.torch.GradScaler, or "
                               "optimizer.synchronize() before another scaler's unscale_ and step")

    def _refuse_late_weight(self):
        if self.weight != self._gradients.weight:
            raise RefusedError(f"optimizer.weight was set to {self.weight} after backward had sent the gradients "
                               f"with {self._gradients.weight}: set it before backward")


def _held_back_of(session, slots):
    """Words for that of which steps hold back a part; "": they send everything."""
    sparse = any(session.route(slot.name) == "tree" for slot in slots)
    return ", ".join(["sparse tensors"] * sparse + [f"wire={session.wire}"] * (session.wire not in ("native", "fp32")))


def _trained(optimizer, named_parameters):
    """Name -> parameter with elements, in the order given; every one that the optimizer updates has a name."""
    named = {}
    for name, parameter in once(pairs_of(named_parameters)):
        if name in named:
            raise InvalidError(f'named_parameters has "{name}" twice')
        if parameter.requires_grad and not is_empty(parameter):
            named[name] = parameter
    known = {id(parameter) for parameter in named.values()}
    updated = {id(p) for group in optimizer.param_groups for p in group["params"] if p.requires_grad and not is_empty(p)}
    if updated - known:
        raise InvalidError(f"{len(updated - known)} parameter(s) of the optimizer are not in "
                           "named_parameters; pass model.named_parameters()")
    return {name: parameter for name, parameter in named.items() if id(parameter) in updated}
