"""The global sample cursor: in PyTorch's loop, and in loops that run ahead while ranks are left out and come back."""

import collections
import importlib
import sys
import types

import pytest
import torch

from conftest import ROOT, run_job

sys.path.insert(0, str(ROOT / "python"))
from ringwood.passes.seeds import Seeds  # noqa: E402

SAMPLES, BATCH, AHEAD, PASSES = 120, 12, 4, 3


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_loader_that_runs_ahead_uses_every_sample_once(ranks):
    run_job("sampling.py", ranks=ranks)


@pytest.mark.parametrize("loader", [False, True])
def test_iterations_of_a_loader_alone_take_a_number(loader):
    """With persistent_workers the loader takes one itself in its first iteration."""
    taken = []
    seeds = Seeds()
    for iteration in range(3):
        before = torch.get_rng_state()
        seeds.made()
        if loader and iteration == 0:
            torch.rand(1)
        seeds.begun()
        taken.append(not torch.equal(before, torch.get_rng_state()))
    assert taken == [loader] * 3


class Loop:
    """A rank's loop over a data loader that prefetches."""

    def __init__(self, rank):
        module = importlib.import_module("ringwood.sampler")
        self.rank = rank
        self.sampler = module.Sampler(SAMPLES, BATCH, seed=1, ahead=AHEAD, rank=rank, world=3)
        self._indices, self._prefetched = iter(()), collections.deque()

    def batch(self):
        while True:
            while len(self._prefetched) <= AHEAD and (indices := next(self._indices, None)) is not None:
                self._prefetched.append(indices)
            if self._prefetched:
                return self._prefetched.popleft()
            self._indices = iter(self.sampler)


@pytest.mark.parametrize("away", [1, 2, AHEAD, AHEAD + 2, SAMPLES // BATCH])
def test_every_sample_is_used_once_where_a_rank_is_left_out_for_some_steps(away):
    loops, used, step = [Loop(rank) for rank in range(3)], collections.Counter(), 0
    while (passed := loops[0].sampler.passes) < PASSES:
        left_out = 4 <= step < 4 + away  # rank 1 is stopped in step 4
        comes = step == 4 + away         # with the state of the others
        there = [loop for loop in loops if loop.rank != 1 or not left_out]
        batches = [(loop, loop.batch()) for loop in there if not (comes and loop.rank == 1)]
        if step == 4:
            loops[1].batch()  # which it has in hand when it comes
        if comes:
            loops[1].sampler.load_state_dict(loops[0].sampler.state_dict())
        weights = {loop.rank: 0 if comes and loop.rank == 1 else loop.sampler.weight for loop in there}
        for loop, indices in batches:
            if weights[loop.rank]:
                assert weights[loop.rank] == len(indices)
                used.update((passed, index) for index in indices)
        members = [loop.rank for loop in there]
        result = types.SimpleNamespace(members=members, contributors=[rank for rank in members if weights[rank]])
        for loop in there:
            loop.sampler.committed(result)
        step += 1
    assert len({loop.sampler.state_dict()["sampler"] for loop in loops}) == 1
    assert used == {(passed, index): 1 for passed in range(PASSES) for index in range(SAMPLES)}
