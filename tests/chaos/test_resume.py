"""A killed job resumes to the bit; `./dev chaos resume` has the full count."""

from test_chaos import run


def test_a_resumed_job_has_the_bits_of_one_that_nothing_disturbed():
    said = run("resume", "--lives", "1", seconds=900)
    assert said.count("bit-identical") == 2, said
