"""LocalSteps: ranks train on their own and exchange only now and then how far they have come.

Each rank steps its own optimizer. Every `every` steps the difference between the outer parameters, which all ranks
have, and its own is a gradient for an outer optimizer: averaged over the ranks by the session, in the background, like
any gradient of Ringwood's (dense or sparse, with error feedback, committed on all ranks or on none). When to exchange
what is rounds.Schedule; what a fragment of the parameters is, fragment.Fragment; the round that is under way,
exchange.Exchange.
"""

import contextlib
import sys

import numpy as np
import torch

from ..agreement import differing, refuse_differences, repeated
from ..errors import AbortedError, InvalidError, RefusedError
from ..recipe import check_share
from ..sampler import NoSamples
from ..slot import is_empty
from ..wrapper import OptimizerWrapper, refuse_wrapped
from .differences import register, set_options, trained
from .exchange import Exchange
from .fragment import Fragment, cut
from .outer import Nesterov, OuterSGD
from .rounds import Schedule, Start

LATER_LOOKS = (16, 256, 4096)  # rounds after which the ranks' outer parameters are compared, beside the start


class LocalSteps(OptimizerWrapper):
    """Takes the place of `optimizer`, whose learning rate schedulers may hold it: `step()` steps it and does what else is
    due. Buffers of the model stay each rank's own.

    `every`: steps from one exchange of a parameter to the next, the same on all ranks. `outer`: the optimizer of the
    outer parameters (outer.py). `delay`: so many steps an exchange may take while training goes on. `fragments`: how
    many parts of the model are exchanged in turn, or a list of modules. `mix`: the share that a rank keeps of its own
    parameters when it takes the outer ones.

    `density`: the share of entries of large tensors that is sent, all else is dense; a parameter group of the optimizer
    may hold its own "density" and "route". `residual_decay`: what is kept of the rest from round to round. `codec`: how
    it travels, "bf16", "int8" or "int4" of dense tensors, "rice/int2" and the like of sparse ones; `chunk`: entries are
    selected in each so many elements; `merge`: "union", "gtopk" or "exact".

    `ahead`: this rank's parameters are not the outer ones after an exchange, but those less what it owes: nothing that it
    learned waits for it to be sent. For sparse differences, with OuterSGD(lr=1), which is then the default.

    `weight`: samples or tokens of the next step on this rank; the average is weighted by their sums. `last`: the
    StepResult of the last round."""

    def __init__(self, job, model, optimizer, every, outer=None, density=None, codec=None, delay=0, fragments=1, mix=0.0,
                 residual_decay=1.0, chunk=None, merge=None, ahead=False):
        if not 0 <= mix < 1:
            raise InvalidError(f"mix={mix} must lie in [0, 1)")
        for share in (density, *(group.get("density") for group in optimizer.param_groups)):
            check_share(None, share)
        if density is None and residual_decay != 1:
            raise InvalidError("residual_decay without density: dense tensors have no residual")
        if ahead and density is None:
            raise InvalidError("ahead without density: dense tensors owe nothing")
        if ahead and outer not in (None, OuterSGD()):
            raise InvalidError(f"ahead with outer={outer}: what a rank owes is applied as it is, with rw.OuterSGD(lr=1.0)")
        if outer is not None and not callable(outer):
            raise InvalidError(f"outer= is a {type(outer).__name__}: rw.Nesterov(), rw.OuterSGD(), or a function that makes "
                               "an optimizer of a list of tensors")
        refuse_wrapped(optimizer)
        named = trained(model, optimizer)
        self._known = {id(parameter) for _, parameter in named}
        parts = cut(named, fragments)
        self.schedule = Schedule(every, len(parts), delay)
        if delay == every and not mix and not ahead:
            raise InvalidError(f"delay={delay} with every={every}: what a rank has trained during the delay gives way to "
                               "the outer parameters, which would be all of it: a smaller delay, or mix=")
        self._outer_rule = outer or (OuterSGD() if ahead else Nesterov())
        self.fragments = [Fragment(part, self._outer_rule, ahead) for part in parts]
        set_options(job, codec, chunk, merge, density)
        self.inner, self.mix, self._model = optimizer, mix, model
        self.weight = 1.0
        self.last = None             # the StepResult of the last round
        self.scaler = None           # a checkpoint asks for these two
        self.before_gradients = []   # each called once, before the parameters change
        self.session = job.session
        self.committed_before = self._committed = self.session.step  # before step(); when it ended
        self._begun = False          # the outer parameters are there
        self._ahead = ahead
        self._resumed = False        # what is owed is to be read again
        self._steps = 0              # since self._rounds rounds were complete
        self._rounds = self.session.step
        self._came = 0               # how often the state came from the others
        self._left_out = None        # the round that began without this rank's samples, where it had just come
        self._quiet = 0              # rounds in a row to which no rank brought samples, as none trains any more
        self._register(job, density, residual_decay)
        job.leaving.append(self._leave)

    def _register(self, job, density, decay):
        if self.session.logged:
            raise RefusedError("local steps keep no update log: start without --update-log, and checkpoint instead")
        job.claim("LocalSteps")
        registered, self._whole = register(self.session, self.fragments, self.inner.param_groups, density, decay)
        self._exchange = Exchange(self.session, range(len(registered)))
        self.session.agree()
        schedule = self.schedule
        refuse_differences(self.session, {
            "every": schedule.every, "delay": schedule.delay, "fragments": registered, "mix": self.mix, "ahead": self._ahead,
            "outer": f"{type(self.fragments[0].optimizer).__name__} {self.fragments[0].optimizer.defaults}"})

    # ---- what a torch optimizer has ----

    def __repr__(self):
        return f"LocalSteps({self.inner!r}, {self.schedule}, outer={self._outer_rule})"

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none=set_to_none)

    def step(self, closure=None):
        """Steps the wrapped optimizer and does what is due after it. Where a round ends it waits for it; a rank that came
        to a job that runs gets the outer parameters instead of a step."""
        while self.before_gradients:
            self.before_gradients.pop()()
        self.committed_before = self._committed
        loss = self._step(closure)
        self._committed = self.session.step
        return loss

    def _step(self, closure):
        if self.session.receiving:
            self._exchange.come()
            self._finish(trains=False)
            return None
        self._refuse_strangers(self._known)
        self._begin()
        loss = self.inner.step(closure)
        self._steps += 1
        for fragment in self.fragments:
            fragment.weight += self.weight
        came = self._came
        for action in self.schedule.after(self._steps, self._rounds):
            if self._came == came:
                self._do(action)
        return loss

    def no_sync(self):
        """For loops that hold backward passes back: here none exchanges anything."""
        return contextlib.nullcontext()

    # ---- rounds ----

    def _begin(self):
        """Before the first step: all ranks have the same parameters."""
        if self._resumed:
            self._resumed = False
            self._owe()
        if self._begun:
            return
        self._refuse_replaced()
        for fragment in self.fragments:
            fragment.begin()
        if not (self._exchange.training and self.session.step):
            repeated(self.session, lambda: self._refuse_differing(
                "before the first step. Call rw.broadcast_parameters(model.state_dict()) after making the model"))
        self._begun = True

    def _refuse_differing(self, when):
        different = differing(self.session, [fragment.outer for fragment in self.fragments])
        if any(different):
            names = [name for fragment, differs in zip(self.fragments, different) if differs
                     for name, _ in fragment.named]
            raise RefusedError(f"parameters among {', '.join(names[:6])}{', …' if len(names) > 6 else ''} differ from rank "
                               f"to rank {when}")

    def _refuse_replaced(self):
        """Parameters that the model has in the place of those that the optimizer steps would never change, in silence."""
        now = {id(parameter): name for name, parameter in self._model.named_parameters()
               if parameter.requires_grad and not is_empty(parameter)}
        new = [name for identity, name in now.items() if identity not in self._known]
        gone = [name for fragment in self.fragments for name, parameter in fragment.named
                if parameter.requires_grad and id(parameter) not in now]
        if new and gone:
            raise RefusedError(f"{len(gone)} parameter(s) of the model were replaced since LocalSteps was made: "
                               f"{', '.join(gone[:6])}{', …' if len(gone) > 6 else ''}. The optimizer steps the old ones: "
                               "load_state_dict without assign=True, or make the optimizer and LocalSteps after it")

    def _do(self, action):
        if isinstance(action, Start):
            self._start(action.round)
        elif self._exchange.running is not None:  # else it was given up with the world that started it
            self._finish()

    def _start(self, number):
        """The round's differences leave. Those of a rank whose training has come to NaN or Inf stay out of it."""
        self._refuse_replaced()
        fragment = self.fragments[self.schedule.fragment(number)]
        fragment.sent, fragment.weight = fragment.weight, 0.0
        if not fragment.differ():
            sys.stderr.write(f"W rank {self.session.rank}: parameters are NaN or Inf: this rank takes no part in round "
                             f"{number}, and starts again from the outer parameters\n")
            fragment.difference.zero_()
            self._start_over()
        if hasattr(self.inner, "averaged"):
            self.inner.sent([parameter for _, parameter in fragment.named])
        self._exchange.start(number, fragment.sent)

    def _owe(self):
        for fragment in self.fragments:
            fragment.owe(self.session.residual)

    def _finish(self, later=False, saves=False, mix=None, trains=True):
        """Waits for the round that is under way, and applies its average, now or `later`. `saves`: for a checkpoint.
        `trains`: this rank has steps to come, as far as it knows."""
        came = self._exchange.wait(later, saves)
        if came:
            later = self._come()
        self.last = self._exchange.result or self.last
        if later:
            return
        self._apply(self._exchange.finish(), mix, trains)
        if came and self.schedule.delay == self.schedule.interval and self._quiet < len(self.fragments):
            self._go_along()

    def _go_along(self):
        """The others have begun the next round in the step in which they finished this one, and may wait for it before they
        train on: a rank that came takes part in it without samples."""
        self._steps += self.schedule.interval
        self._left_out = self.session.step + 1
        self._start(self._left_out)

    def _come(self):
        """Of a rank that is new, or was away: with a round came the state that the others had before it. It goes on with
        all steps of the round that follows, for whose start they wait. Returns whether they apply this one later."""
        self._owe()
        self._start_over()
        self._came += 1
        return self._exchange.later

    def _apply(self, result, mix, trains):
        quiet = result.total_weight == 0 and not self._anybody(trains)
        self._quiet = self._quiet + 1 if quiet else 0
        fragment = self.fragments[self.schedule.fragment(result.step)]
        if result.skipped:
            fragment.weight += fragment.sent  # still to be sent
        else:
            fragment.unit = fragment.sent or fragment.unit
            kept = 0.0 if result.received else self.mix if mix is None else mix
            if hasattr(self.inner, "averaged"):
                self.inner.averaged(fragment.moves(self._whole), kept)
            fragment.update()
            fragment.owe(self.session.residual)
            fragment.give(kept)
        fragment.sent = 0.0
        if result.step in LATER_LOOKS and self._exchange.training is None:
            self._refuse_differing(f"after round {result.step}: the outer optimizer must do the same everywhere")

    def _anybody(self, trains):
        """Whether any rank trains, asked after a round to which none brought samples: a rank whose parameters were NaN or
        Inf goes on, although others have come to their end."""
        while not self.session.receiving:
            try:
                return bool(self.session.allreduce(np.array([trains], np.int32), op="max")[0])
            except AbortedError:  # a rank has died or come
                if self._exchange.training is None:
                    raise
        return True

    def settle(self):
        """Waits for the round that is under way, if there is one; its average is applied when its time comes."""
        self._finish(later=True)

    def _start_over(self):
        """This rank's parameters are the outer ones; how far it had gone, and its optimizer's state, are given up."""
        for fragment in self.fragments:
            fragment.give()
            fragment.weight = fragment.sent = 0.0
        self.inner.state.clear()

    def batches(self, indices):
        """Cuts this rank's samples of a round, as a sampler gives them whose steps are rounds, into the batches of its
        steps, and sets their weights. Where a step brings the others' state instead, the rest is left out,
        and so are the samples of a round that has begun without this rank."""
        left_out, self._left_out = self._left_out, None
        if left_out == self.session.step + 1:
            return
        steps, came = self.schedule.interval, self._came
        for part in range(steps):
            batch = indices[part::steps]
            self.weight = 0.0 if isinstance(indices, NoSamples) else float(len(batch))
            yield batch or indices[:1]
            if self._came != came:
                return

    def join(self):
        """After the last step, on all ranks; they may have done different numbers of steps. Takes part without new samples
        until all ranks have come here and all that was trained is exchanged. The ranks end with the same parameters,
        the outer ones, from which further steps go on. A rank that came with the last of these rounds has joined with
        the others. Returns how many rounds that took."""
        self._begin()
        count = 0
        while self._exchange.running is not None or self._quiet < len(self.fragments):
            mix = None
            if self._exchange.running is None:
                self._start(self.session.step + 1)
                mix, count = 0.0, count + 1
            self._finish(mix=mix, trains=False)
        for fragment in self.fragments:
            fragment.meet()
        self._go_on_from(0)
        self._quiet = 0
        self.committed_before = self._committed = self.session.step
        return count

    @contextlib.contextmanager
    def outer_parameters(self):
        """Within it the model has the outer parameters, those that all ranks have: to evaluate or export them."""
        self._begin()
        with torch.no_grad():
            parameters = [parameter for fragment in self.fragments for _, parameter in fragment.named]
            own = [parameter.detach().clone() for parameter in parameters]
            for fragment in self.fragments:
                fragment.show_outer()
            try:
                yield
            finally:
                torch._foreach_copy_(parameters, own)

    def traffic(self):
        """[rounds, dense bytes, sparse bytes, bytes if all rounds were dense and whole], sent by this rank so far."""
        return self._exchange.traffic()

    # ---- state ----

    def follow(self, training):
        """From now on `training` (an Elastic) is told of each commit, and gives and takes the state."""
        self._exchange.training = training

    @property
    def followed(self):
        """Whether an Elastic is told of every round."""
        return self._exchange.training is not None

    def shared_state(self):
        """What is alike on all ranks: the outer parameters and their optimizer, and what became of the last round. The wrapped
        optimizer's state, and where in the schedule a rank is, are its own: `local`."""
        state = {**self._shared(), "running": self._exchange.running, "average": None, "waiting": None}
        if self._exchange.waiting:  # for ranks that come, which go on from there
            state["waiting"] = {"later": self._exchange.later, "saves": self._exchange.saves,
                                "committed_before": self.committed_before}
        if self._exchange.result is not None:
            fragment = self.fragments[self.schedule.fragment(self._exchange.running)]
            state["average"] = {"difference": fragment.difference, "skipped": self._exchange.result.skipped}
        return {"ringwood": state}

    def _shared(self):
        return {"begun": self._begun, "quiet": self._quiet, "fragments": [each.state_dict() for each in self.fragments]}

    def state_dict(self):
        """As PyTorch's optimizers have it, for a file of your own: the wrapped optimizer's state, and under "ringwood" what
        is alike on all ranks and what else is this rank's own. A round that is under way counts as not begun, so that what
        it carries is exchanged by the next one. Residuals are in a rw.Checkpoint alone."""
        own = {**Local(self).numbers(), "weights": [[each.weight + each.sent, 0.0, each.unit] for each in self.fragments]}
        return {**self.inner.state_dict(), "ringwood": {**self._shared(), "running": None, "average": None, "local": own}}

    def load_state_dict(self, state):
        """Takes what state_dict or shared_state gave. The model keeps its parameters, so load them before; on a rank whose
        state is another one's, or with another world or schedule, it gets the outer ones. The state of an optimizer that
        trained without LocalSteps is the wrapped one's."""
        inner = {key: value for key, value in state.items() if key != "ringwood"}
        state = state.get("ringwood", {})
        if "fragments" not in state:
            if state.get("velocity"):
                raise InvalidError("the saved state is that of a DistributedOptimizer with momentum correction, which "
                                   "LocalSteps has not: leave its \"ringwood\" out to begin without momentum")
            self.inner.load_state_dict(inner)
            return
        if len(state["fragments"]) != len(self.fragments):
            raise InvalidError(f"the saved state has {len(state['fragments'])} fragments, here are {len(self.fragments)}: "
                               "fragments= must be what it was")
        if "local" in state:
            self._exchange.wait(later=True)
        for fragment, saved in zip(self.fragments, state["fragments"]):
            fragment.load_state_dict(saved)
        self._go_on_from(state.get("steps", 0))  # that of an older version
        self._begun, self._quiet = state["begun"], state.get("quiet", 0)
        waiting = state.get("waiting") or {"later": False, "saves": False, "committed_before": self.session.step}
        self.committed_before = self._committed = waiting["committed_before"]
        self.saving_at = self.session.step if waiting["saves"] else None
        self._exchange.give_up()
        self._exchange.later = waiting["later"]
        if state["average"] is not None:
            fragment = self.fragments[self.schedule.fragment(state["running"])]
            fragment.difference.copy_(state["average"]["difference"])
            self._exchange.restore(state["running"], state["average"]["skipped"])
        if "local" in state:
            self.local.load_state_dict({**state["local"], "inner": inner})

    def _go_on_from(self, steps):
        """So many inner steps after the start of the round that is complete in this session, which may have to be applied."""
        interval = self.schedule.interval
        self._steps, self._rounds = interval + steps % interval, self.session.step - 1

    @property
    def local(self):
        """This rank's own part of a checkpoint."""
        return Local(self)

    def _leave(self):
        """At shutdown: a round that nobody waits for is given up with the session."""
        self._exchange.give_up()


class Local:
    """What is one rank's own between two exchanges: its optimizer's state, how much it trained since. Its parameters are
    the model's."""

    def __init__(self, owner):
        self._owner = owner

    @property
    def waiting(self):
        """Whether settle() has a round to wait for."""
        return self._owner._exchange.waiting

    @property
    def steps(self):
        """A counter of the steps."""
        return self._owner._steps

    def state_dict(self):
        return {**self.numbers(), "inner": self._owner.inner.state_dict()}

    def settle(self):
        """LocalSteps.settle before a checkpoint. Returns whether this rank was away, and is where the others are now."""
        owner, came = self._owner, self._owner._came
        owner._finish(later=True, saves=True)
        return owner._came != came

    def numbers(self):
        """All but the optimizer's state."""
        owner = self._owner
        return {"rank": owner.session.rank, "world": owner.session.world, "schedule": _numbers(owner.schedule),
                "steps": owner._steps % owner.schedule.interval,
                "weights": [[fragment.weight, fragment.sent, fragment.unit] for fragment in owner.fragments]}

    def load_state_dict(self, state):
        """Of another rank or world, or with another schedule: training goes on from the outer parameters."""
        owner = self._owner
        owner.inner.load_state_dict(state["inner"])
        owner._go_on_from(state.get("steps", owner._steps))
        mine = (owner.session.rank, owner.session.world, _numbers(owner.schedule))
        if (state["rank"], state["world"], list(state["schedule"])) == mine:
            for fragment, (weight, sent, *unit) in zip(owner.fragments, state["weights"]):
                fragment.weight, fragment.sent, fragment.unit = weight, sent, *(unit or [0.0])
            owner._resumed = True
            return
        if list(state["schedule"]) != mine[2]:
            owner._go_on_from(0)
            owner._exchange.give_up()
        for fragment in owner.fragments:
            fragment.weight = fragment.sent = fragment.unit = 0.0
            if owner._begun:
                fragment.meet()


def _numbers(schedule):
    return [schedule.every, schedule.fragments, schedule.delay]
