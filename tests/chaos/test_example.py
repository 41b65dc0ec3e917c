"""A rank of the PyTorch example dies under the launcher; `./dev chaos pytorch` has the full count."""

from test_chaos import run


def test_the_processes_of_the_survivors_stay_and_the_killed_rank_comes_back():
    said = run("pytorch", "1", "--ranks", "3", seconds=900)
    assert "| pytorch | 1 of 1 |" in said and "stayed the same in 1 of 1" in said, said
