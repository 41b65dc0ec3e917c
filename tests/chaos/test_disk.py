"""The PyTorch example on a disk that is full for a time, and with a store that is deleted under it."""

import os

import pytest

from disk import DATA
from test_chaos import run


@pytest.mark.skipif(not os.path.exists(DATA), reason="the data set is missing (Debian: dataset-fashion-mnist)")
def test_training_goes_on_and_checkpoints_are_kept_again():
    said = run("disk", "1", seconds=900)
    assert "full: the alarm came" in said or "full: skipped" in said, said
    assert "deleted: the alarm came" in said, said
