"""Training, resumes, local steps and DistributedDataParallel over models and options that numbers choose. To try
others: ringwood run -np 3 -- python tests/python/jobs/random/training.py FIRST COUNT."""

import pytest

from conftest import run_job

NUMBERS = (80, 20)  # the first, and how many


@pytest.mark.parametrize("ranks", [2, 3])
def test_training_ends_where_one_process_ends_that_averages_by_itself(ranks):
    run_job("random/training.py", *NUMBERS, ranks=ranks, timeout=300)


@pytest.mark.parametrize("logged", [[], ["logged"]], ids=["checkpoint", "update log"])
def test_a_resumed_job_has_the_bits_of_one_that_went_on(logged, tmp_path):
    run_job("random/resumed.py", *NUMBERS, *logged, timeout=300,
            flags=["--store", tmp_path, *(["--update-log"] if logged else [])])


def test_a_resumed_job_of_local_steps_has_the_bits_of_one_that_went_on(tmp_path):
    run_job("random/local_steps.py", *NUMBERS, timeout=300, flags=["--store", tmp_path])


def test_data_parallel_over_ringwood_ends_where_it_ends_over_gloo():
    run_job("random/data_parallel.py", *NUMBERS, timeout=300)
