"""A job resumes from a slow disk; `./dev chaos slow` has a check of 90 s."""

from test_chaos import run


def test_no_timeout_ends_a_resume_whose_check_takes_long():
    said = run("slow", "--seconds", "6")
    assert "resumed after" in said, said
