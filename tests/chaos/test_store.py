"""A job that saves all the time is killed as a whole, and resumes; `./dev chaos store` has the full count."""

from test_chaos import run


def test_a_killed_job_resumes_from_the_newest_checkpoint_that_was_reported():
    said = run("store", "3")
    assert "| store | 3 of 3 |" in said and "left a checkpoint half-way" in said, said
