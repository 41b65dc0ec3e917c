"""ringwood.Session end to end: real processes under `ringwood run`."""

import pytest

from conftest import run_job


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_dense_gradients_become_the_weighted_average_exactly(ranks):
    run_job("dense.py", ranks=ranks)


@pytest.mark.parametrize("ranks, servers", [(1, 1), (2, 1), (3, 1), (4, 3), (5, 3)])
def test_applied_and_residuals_are_the_gradients_exactly(ranks, servers):
    run_job("sparse.py", ranks=ranks, flags=("--servers", servers))


def test_nothing_is_lost_with_coarse_values_and_one_threshold_over_two_servers():
    run_job("sparse.py", ranks=3, RINGWOOD_SPARSE_CHUNK="4096",
            flags=("--servers", 2, "--sparse-codec", "rice/int4", "--sparse-merge", "exact"))


@pytest.mark.parametrize("method", ["threshold", "gaussian"])
def test_nothing_is_lost_with_another_method_of_selection(method):
    run_job("sparse.py", ranks=3, flags=("--servers", 2, "--sparse-method", method))


def test_wrong_use_gives_a_typed_error_and_the_session_goes_on():
    run_job("misuse.py")


@pytest.mark.parametrize("how, words", [
    ("shape", ["weights", "100", "101"]), ("fewer", ["bias"]), ("order", ["weights", "bias"]),
    ("world", ["2", "3"]), ("wire", ["wire", "native", "bf16"]), ("momentum", ["bias", "0.8", "0.9"])])
def test_ranks_that_disagree_stop_with_both_sides_named(how, words):
    ended = run_job("disagree.py", how, code=78, flags=("--join-timeout", 20))
    error = "\n".join(line for line in ended.output.splitlines() if "Error" in line)
    assert all(word in error for word in words), ended.output


def test_two_ranks_live_in_one_process():
    run_job("two_ranks.py", ranks=1)


def test_plans_and_records_are_arguments_of_the_session(tmp_path):
    run_job("records.py", tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    ranks = {f"{rank}.{kind}" for rank in (0, 1) for kind in ("json", "flight")}
    assert names == {"plan.json", "profile.csv", *ranks}, names


def test_ready_keeps_the_interpreter_beside_a_busy_thread():
    run_job("busy.py")
