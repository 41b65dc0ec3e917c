"""Has every iteration over a sampler take one number from PyTorch's generator, as a DataLoader does that begins with the
seed of its workers. One with persistent_workers takes none from its second iteration on, which in a job that was resumed
is the first."""

import torch


class Seeds:
    def __init__(self):
        self._before = None

    def made(self):
        """An iterator. A DataLoader makes two before it asks for a batch."""
        if self._before is None:
            self._before = torch.get_rng_state()

    def begun(self):
        """Its first batch is asked for."""
        before, self._before = self._before, None
        if before is not None and torch.equal(before, torch.get_rng_state()):
            torch.empty((), dtype=torch.int64).random_()
