"""ringwood.torch, and the example that the demo runs."""

import importlib.metadata
import json
import os
import sys

import pytest

from conftest import EXAMPLE, run, run_job

needs_device = pytest.mark.skipif(
    not os.path.exists("/dev/nvidia0") or "+cpu" in importlib.metadata.version("torch"),
    reason="no device")


@pytest.mark.parametrize("ranks", [2, 3])
def test_dense_training_equals_one_process_on_the_whole_batch(ranks):
    run_job("torch_layer.py", ranks=ranks)


def test_passes_accumulate_and_missing_gradients_are_named():
    run_job("accumulate.py")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_device)])
def test_gradients_that_are_staged_and_groups_closures_and_held_passes(device):
    run_job("staged.py", device)


def test_a_gradscaler_sees_averages_and_all_ranks_skip_together():
    run_job("scaler.py")


@pytest.mark.parametrize("route", ["dense", "sparse"])
def test_the_hook_of_data_parallel_gives_the_bits_of_the_optimizer(tmp_path, route):
    for how in ("optimizer", "hook"):
        run_job("data_parallel.py", how, route, tmp_path / how)
    assert (tmp_path / "hook").read_text() == (tmp_path / "optimizer").read_text()


def test_forked_loader_workers_are_harmless():
    run_job("loader.py")


def train(report, *arguments, ranks=4, flags=(), timeout=600):
    run_job(EXAMPLE, *arguments, ranks=ranks, flags=("--report", report, *flags), timeout=timeout)
    return json.loads(report.read_text())


def test_the_same_seed_gives_the_same_bits_on_every_rank(tmp_path):
    one, two = (train(tmp_path / name, "--limit", 1000, "--epochs", 1, ranks=3) for name in "ab")
    assert one["weights_digest"] == two["weights_digest"]
    assert len(one["weights_digest"]) == 3 and len(set(one["weights_digest"])) == 1
    assert one["steps"] == 8 and one["world"] == 3
    sent = one["bytes_per_step"]
    assert 0 < sent["dense"] + sent["sparse"] < sent["dense_equivalent"] / 5, sent


def test_a_missing_data_set_names_the_package():
    ended = run([sys.executable, EXAMPLE, "--single", "--data", "/nowhere"])
    assert ended.code == 78 and "dataset-fashion-mnist" in ended.output, ended.output


def test_accuracy_stays_within_two_points_of_one_process_without_compression(tmp_path):
    reference = tmp_path / "single"
    ended = run([sys.executable, EXAMPLE, "--single", "--report", reference], timeout=600)
    assert ended.code == 0, ended.output
    single = json.loads(reference.read_text())
    together = train(tmp_path / "together")
    print(f"accuracy: {together['accuracy']:.4f} with 4 ranks, {single['accuracy']:.4f} in one process")
    assert together["steps"] == single["steps"] == 938
    assert together["accuracy"] > single["accuracy"] - 0.02
    assert len(set(together["weights_digest"])) == 1
