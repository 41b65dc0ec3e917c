"""The global sample cursor in PyTorch's loop."""

import pytest

from conftest import run_job


@pytest.mark.parametrize("ranks", [1, 3])
def test_a_loader_that_runs_ahead_uses_every_sample_once(ranks):
    run_job("sampling.py", ranks=ranks)
