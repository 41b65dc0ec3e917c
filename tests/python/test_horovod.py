"""ringwood.horovod: Horovod's names, so that changing the import is enough."""

import pytest

from conftest import run_job


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("script", ["horovod/calls.py", "horovod/training.py"])
def test_scripts_for_horovod_run_with_the_import_changed(script, ranks):
    ended = run_job(script, ranks=ranks)
    assert ended.output.count("all as it should be") == ranks, ended.output


@pytest.mark.parametrize("what", ["operation", "factor", "shape", "name", "gathered", "root"])
def test_ranks_that_swap_calls_hear_of_it_at_once(what):
    ended = run_job("horovod/swapped.py", what)
    assert ended.output.count("heard of it") == 2, ended.output
