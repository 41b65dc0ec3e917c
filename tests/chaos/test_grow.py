"""A job that grows by a rank and loses one again; `./dev chaos grow` goes from 2 to 4 to 8 to 3."""

from test_chaos import run


def test_samples_and_residuals_of_a_job_that_grows_and_shrinks():
    said = run("grow", "--worlds", "2", "3", "2", "--passes", "6", "--windows", "1024", seconds=900)
    assert "residuals balance in" in said and "| 6 |" in said and "leaves: pause" in said, said
