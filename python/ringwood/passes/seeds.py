"""Has every iteration of a data loader over a sampler take one number from PyTorch's generator, as a loader does that begins
with the seed of its workers. One with persistent_workers takes none from its second iteration on, which in a job that was
resumed is the first. Where no loader iterates, nothing is taken."""

import torch


class Seeds:
    def __init__(self):
        self._before = None
        self._loader = False  # one has iterated, which was seen by the number that it took

    def made(self):
        """An iterator. A DataLoader makes two before it asks for a batch."""
        if self._before is None:
            self._before = torch.get_rng_state()

    def begun(self):
        """Its first batch is asked for."""
        before, self._before = self._before, None
        if before is None:
            return
        taken = not torch.equal(before, torch.get_rng_state())
        if self._loader and not taken:
            torch.empty((), dtype=torch.int64).random_()
        self._loader = self._loader or taken
