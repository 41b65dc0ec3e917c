"""Training, resumes, worlds that change, deaths, local steps and DistributedDataParallel, as numbers choose them. To try
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


def test_a_job_goes_on_with_what_another_number_of_ranks_has_saved(tmp_path):
    run_job("random/worlds.py", 0, 3, ranks=4, timeout=300, flags=["--store", tmp_path])


@pytest.mark.parametrize("number", [2, 11, 43, 53])
def test_ranks_that_die_come_back_and_all_have_the_same(number, tmp_path):
    ranks = 2 + number % 3
    ended = run_job("random/elastic.py", tmp_path, number, ranks=ranks, timeout=120,
                    flags=["--elastic", "--max-restarts", 9, "--restart-on-failure", "--store", tmp_path / "store"])
    assert ended.output.count("ended in life") == ranks, ended.output


def test_data_parallel_over_ringwood_ends_where_it_ends_over_gloo():
    run_job("random/data_parallel.py", *NUMBERS, timeout=300)
