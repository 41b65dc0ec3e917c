"""Garbage on the ports of a job under TLS; `./dev chaos flood` has the full count."""

from test_chaos import run


def test_a_job_under_tls_lives_through_garbage_on_all_of_its_ports():
    said = run("flood", "--connections", "100")
    assert said.count("| rank |") == 2 and said.count("| server |") >= 2 and "exit code 0" in said, said
