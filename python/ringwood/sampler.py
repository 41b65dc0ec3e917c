"""The global sample cursor: each sample of a pass is used exactly once in committed steps.

    sampler = ringwood.Sampler(len(dataset), batch_size=256, seed=1, rank=rank, world=world)
    while sampler.passes < 10:
        for indices in sampler:                        # this rank's samples of the step
            session.begin_step(weight=sampler.weight)
            ...
            sampler.committed(session.finish_step())

The rules are those of ringwood.h. A torch DataLoader takes it as its `batch_sampler`.
"""

import collections
import ctypes
from ctypes import byref, c_int, c_uint64, c_void_p

from .errors import InvalidError, NotFoundError, RefusedError
from .library import SamplerOptions, StepNumbers, load


class NoSamples(list):
    """What a rank without samples gets: one nevertheless, whose weight is 0."""


class Sampler:
    """`dataset`: with a length, or the length. `batch_size`: samples of a step, all ranks together; a rank takes
    its part of them. `ahead`: how many steps a data loader may run ahead of the commit: num_workers *
    prefetch_factor of a DataLoader with workers, and no more: what runs ahead is not told from batches that a loop
    left out. All but `rank` are equal on all ranks.

    Iterating hands out lists of indices from the first step on that is not committed: what was handed out and
    not committed comes again. It ends when the pass has nothing left to hand out; if a rank died meanwhile, what
    comes back is the next iteration's. `passes` counts those that are complete.

    A rank without samples gets one nevertheless, so that a loop need not know of empty batches: its `weight` is
    0, and what it computes is not used.
    """

    seeds = None  # in PyTorch's loops: passes.seeds.Seeds

    def __init__(self, dataset, batch_size, seed=0, ahead=0, shuffle=True, rank=0, world=1):
        self._library = load()
        self._handle = None
        self._rank, self._world = rank, world
        self.samples = dataset if isinstance(dataset, int) else len(dataset)
        self.batch_size, self.seed, self.ahead, self.shuffle = batch_size, seed, ahead, shuffle
        for name, value in (("samples", self.samples), ("batch_size", batch_size), ("seed", seed)):
            if not 0 <= value < 2 ** 64:
                raise InvalidError(f"a sampler with {name}={value}: it is a number from 0 on")
        options = SamplerOptions(ctypes.sizeof(SamplerOptions), self.samples, batch_size, seed, world, ahead,
                                 not shuffle)
        handle = c_void_p()
        self._check(self._library.quick.ringwood_sampler_make(byref(options), byref(handle)))
        self._handle = handle
        self._commits = 0
        self._restored = 0  # how often
        self._handed_out = collections.deque()  # shares of the last iteration that are not committed, the next one first
        self._begun = False  # whether a step of this pass is committed
        self._at_next_iteration = None

    def __del__(self):
        if getattr(self, "_handle", None):
            self._library.quick.ringwood_sampler_free(self._handle)

    @property
    def settings(self):
        """What must be equal on all ranks."""
        return {"samples": self.samples, "batch_size": self.batch_size, "seed": self.seed, "ahead": self.ahead,
                "shuffle": self.shuffle}

    @property
    def passes(self):
        """Complete ones; also the number of the present one, from 0."""
        return self._library.quick.ringwood_sampler_pass(self._handle)

    @property
    def weight(self):
        """This rank's samples in the step that commits next. 0 where the next batch of the iteration has others: a data
        loader had prefetched it before load_state_dict, as on a rank that was left out for some steps."""
        share = self.share()
        return len(share) if not self._handed_out or self._handed_out[0] == share else 0

    def share(self, ahead=0):
        """The indices of this rank in the step that commits next, or so many steps later; None where the pass
        has no such step."""
        count = c_uint64()
        try:
            self._next(ahead, None, count)
        except NotFoundError:
            return None
        samples = (c_uint64 * count.value)()
        self._next(ahead, samples, count)
        return list(samples)

    def __iter__(self):
        if self.seeds is not None:
            self.seeds.made()
        return self._steps()

    def _steps(self):
        if self.seeds is not None:
            self.seeds.begun()
        at_once, self._at_next_iteration = self._at_next_iteration, None
        if at_once is not None:
            at_once()
        self._handed_out.clear()
        first, during = self._commits, (self.passes, self._restored)
        handed_out = 0
        while (self.passes, self._restored) == during:
            ahead = first + handed_out - self._commits
            if ahead > self.ahead:
                raise RefusedError(
                    f"a batch was asked for while {ahead} before it are not committed, and the sampler was made with "
                    f"ahead={self.ahead}. A data loader that prefetches needs ahead = num_workers * prefetch_factor, equal on "
                    "all ranks. Each batch is one step, and one committed(): to accumulate gradients let batch_size be the "
                    "whole step's, and divide each batch (docs/python.md, the sample cursor)")
            share = self.share(ahead)
            if share is None:
                return
            handed_out += 1
            self._handed_out.append(share)
            yield share or NoSamples([0])

    def __len__(self):
        """Steps of a pass in which no rank fails."""
        return -(-self.samples // self.batch_size)

    def committed(self, result):
        """After each step, with the StepResult."""
        during = self.passes
        self._check(self._library.quick.ringwood_sampler_committed(self._handle, byref(_numbers_of(result))))
        self._commits += 1
        if self._handed_out:
            self._handed_out.popleft()
        self._begun = self.passes == during

    def state_dict(self):
        """Equal on all ranks."""
        size = c_uint64()
        self._check(self._library.quick.ringwood_sampler_state(self._handle, None, 0, byref(size)))
        content = ctypes.create_string_buffer(size.value)
        self._check(self._library.quick.ringwood_sampler_state(self._handle, content, size.value, byref(size)))
        return {"sampler": content.raw.hex(), "begun": self._begun}

    def load_state_dict(self, state, world=0):
        """Iterations that run end; what a data loader has prefetched from one has the weight 0. `world`: of a job that goes
        on with another number of ranks."""
        content = bytes.fromhex(state["sampler"])
        self._check(self._library.quick.ringwood_sampler_restore(self._handle, content, len(content), world))
        self._restored += 1
        self._begun = state.get("begun", False)  # older versions did not save it

    def divide_anew(self):
        """Of a job that was resumed: what is left of the pass is divided among the ranks that this sampler was made for, if
        it was among others."""
        self.load_state_dict(self.state_dict(), self._world)

    def resumed(self, call):
        """After load_state_dict. Where that led into the middle of a pass, `call` is made once: when the next iteration is
        asked for its first batch. A DataLoader has then made its iterator, and drawn the seed of its workers from
        PyTorch's generator, which the job that was interrupted had done before."""
        if self._begun:
            self._at_next_iteration = call

    def _next(self, ahead, samples, count):
        self._check(self._library.quick.ringwood_sampler_next(self._handle, self._rank, ahead, samples, count.value,
                                                              byref(count)))

    def _check(self, code):
        self._library.check(code)


def _numbers_of(result):
    members, contributors = ((c_int * len(ranks))(*ranks) for ranks in (result.members, result.contributors))
    return StepNumbers(size=ctypes.sizeof(StepNumbers), members=members, member_count=len(members),
                       contributors=contributors, contributor_count=len(contributors))
