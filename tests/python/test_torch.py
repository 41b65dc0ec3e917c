"""ringwood.torch, and the example that the demo runs."""

import json
from importlib.util import find_spec

import pytest
import torch

from conftest import EXAMPLE, JOBS, PROGRAM, ROOT, python, run, run_job

SCRIPTS = {"torch_layer.py": "dense training equals one process on the whole batch",
           "accumulate.py": "passes accumulate and missing gradients are named",
           "optimizer/staged.py:cpu:sparse": "gradients of all kinds, groups, closures, passes held back",
           "misuse_torch.py": "wrong use of the optimizer is a typed error",
           "gpt.py": "without options a GPT trains as with DistributedDataParallel",
           "several.py": "several optimizers step when they like",
           "optimizer/again.py": "two exchanges give what one gives, and a checkpoint knows who leads",
           "optimizer/copied.py": "a model in training is copied and saved whole",
           "optimizer/default_device.py": "a default device and type are the script's, not Ringwood's",
           "optimizer/held_back.py": "what was held back of a gradient arrives where no rank has one",
           "optimizer/in_backward.py": "an optimizer steps inside backward, whatever is missing",
           "optimizer/let_go.py": "gradients that are let go are free, and nothing else changes",
           "optimizer/moved.py": "no average goes where a gradient was before model.to() moved it",
           "freezing.py": "layers are frozen and trained again, and never drift apart",
           "alike.py": "parameters that differ are told, buffers can follow rank 0",
           "optimizer/sparse_embedding.py": "sparse gradients of an embedding travel over the hook, and come back sparse",
           "optimizer/spectral.py": "complex weights train with the optimizer and over the hook",
           "taken_over.py": "the momentum of SGD is taken below the selection",
           "local/torch_state.py": "local steps are resumed by PyTorch's means",
           "loader.py": "forked loader workers are harmless"}
SCALES = hasattr(torch.amp, "GradScaler")  # on a CPU; PyTorch before 2.3 does not
if find_spec("torch.distributed.tensor"):  # since PyTorch 2.5
    SCRIPTS["optimizer/sharded.py"] = "parameters that are DTensors are refused by name"
if SCALES:
    SCRIPTS["scaler.py"] = "a GradScaler sees averages and all ranks skip together"
    SCRIPTS["optimizer/fused.py"] = "a GradScaler's factor reaches a fused optimizer"


@pytest.fixture(scope="module")
def in_turn():
    """One job for all of them."""
    return run([PROGRAM, "run", "-np", 2, "--", *python(JOBS / "in_turn.py"), *SCRIPTS])


@pytest.mark.parametrize("script", SCRIPTS, ids=SCRIPTS.values())
def test_of_two_ranks(in_turn, script):
    assert f"done {script}\n" in in_turn.output, in_turn.output


def test_a_program_of_many_sessions_tells_of_its_data_plane_once(in_turn):
    assert in_turn.output.count("I rank 0: data plane: ") == 1, in_turn.output


@pytest.mark.parametrize("how, told", [([], 1), (["register"], 0)], ids=["left out", "registered"])
def test_a_hook_that_no_backward_has_called_is_told(how, told):
    output = run_job("distributed/unregistered.py", *how).output
    assert output.count("no backward came to the HookState of 2 parameters") == told, output


@pytest.mark.parametrize("kind, why", [("sparse", "(sparse tensors)"), ("int4", "(wire=int4)")])
def test_what_is_held_back_of_averages_that_no_step_uses_is_told_once(kind, why):
    dropped = run_job("optimizer/unused.py", kind, "drops").output
    assert dropped.count("W rank 0: the averages of step 1 were dropped by zero_grad()") == 1, dropped
    assert why in dropped and "were dropped" in dropped and "backward() comes again" not in dropped, dropped
    sam = run_job("optimizer/unused.py", kind, "sam").output
    assert sam.count("W rank 0: backward() comes again before step()") == 1 and why in sam, sam
    assert "train densely, in fp32" in sam, sam


def test_dense_averages_may_be_dropped():
    assert "were dropped" not in run_job("optimizer/unused.py", "dense", "drops").output
    sam = run_job("optimizer/unused.py", "dense", "sam").output
    assert sam.count("I rank 0: backward() comes again before step()") == 1 and "held back" not in sam, sam


def test_dense_training_of_three_ranks_equals_one_process_on_the_whole_batch():
    run_job("torch_layer.py", ranks=3)


def test_passes_of_different_steps_are_never_averaged():
    run_job("optimizer/uneven_passes.py")


def test_ranks_whose_data_ends_early_join_the_others():
    run_job("uneven.py", ranks=3)


@pytest.mark.parametrize("kind", ["distributed", "local"])
def test_parameters_without_elements_take_part_in_nothing(kind, tmp_path):
    ended = run_job("optimizer/empty.py", kind, flags=["--store", tmp_path, "--resume=auto"])
    assert ended.output.count("all as it should be") == 2, ended.output


@pytest.mark.parametrize("how, wire, width", [("optimizer", None, 2), ("hook", None, 2), ("further", None, 2), ("velocity", None, 4),
                                              ("optimizer", "fp32", 4)])
def test_gradients_of_bfloat16_travel_as_they_are(how, wire, width):
    """As DistributedDataParallel sends them, unless fp32 is asked for or kept beside them."""
    run_job("optimizer/narrow.py", how, width, "cpu", flags=["--wire", wire] if wire else [])


def test_a_model_that_is_in_data_parallel_too_is_refused():
    run_job("in_turn.py", "optimizer/beside_ddp.py")


def test_the_hook_of_data_parallel_gives_the_bits_of_the_optimizer(tmp_path):
    runs = ["optimizer:dense", "hook:dense", "optimizer:sparse", "hook:sparse"]
    runs += ["scaled:dense"] if SCALES else []
    files = {each: tmp_path / str(number) for number, each in enumerate(runs)}
    run_job("in_turn.py", *(f"data_parallel.py:{each}:{file}" for each, file in files.items()))
    bits = {each: file.read_bytes() for each, file in files.items()}
    assert bits["hook:dense"] == bits["optimizer:dense"]
    assert not SCALES or bits["scaled:dense"] == bits["optimizer:dense"]
    assert bits["hook:sparse"] == bits["optimizer:sparse"] != bits["hook:dense"]


def test_ranks_with_other_settings_stop_with_both_sides_named():
    ended = run_job("settings.py", code=78)
    assert 'tensor "bias" differs' in ended.output, ended.output
    assert "momentum 0.8 on rank 1" in ended.output and "momentum 0.9 on rank 0" in ended.output


def train(report, *arguments, ranks=4, flags=()):
    run_job(EXAMPLE, *arguments, ranks=ranks, flags=("--report", report, *flags))
    return json.loads(report.read_text())


def test_the_same_seed_gives_the_same_bits_on_every_rank(tmp_path):
    one, two = (train(tmp_path / name, "--limit", 1000, "--epochs", 1, ranks=3) for name in "ab")
    assert one["weights_digest"] == two["weights_digest"]
    assert len(one["weights_digest"]) == 3 and len(set(one["weights_digest"])) == 1
    assert one["steps"] == 8 and one["world"] == 3
    sent = one["bytes_per_step"]
    assert 0 < sent["dense"] + sent["sparse"] < sent["dense_equivalent"] / 5, sent


LSTM = (ROOT / "examples" / "char_lstm.py", "--hidden", 64, "--window", 24, "--momentum", 0, "--lr", 2)
FASHION = (EXAMPLE, "--limit", 1000, "--epochs", 1)


def curves(tmp_path, example, route, ranks):
    """The losses of every step, in one process and together."""
    ended = run([*python(example[0]), *example[1:], "--single", "--report", tmp_path / "single"])
    assert ended.code == 0, ended.output
    run_job(*example, "--route", route, "--report", tmp_path / "together", ranks=ranks)
    return [json.loads((tmp_path / name).read_text())["losses"] for name in ("single", "together")]


@pytest.mark.parametrize("example", [(*LSTM, "--steps", 60), FASHION], ids=["lstm", "fashion_mnist"])
def test_the_dense_loss_curve_is_that_of_one_process(tmp_path, example):
    single, together = curves(tmp_path, example, "dense", ranks=3)
    assert single[-1] < single[0] - 0.05
    assert together == pytest.approx(single, rel=1e-4)


def test_the_sparse_loss_curve_is_close_to_that_of_one_process(tmp_path):
    example = (*LSTM, "--steps", 150, "--density", 0.1)
    single, together = curves(tmp_path, example, "sparse", ranks=2)
    assert together != pytest.approx(single, rel=1e-4)
    assert sum(together[-15:]) == pytest.approx(sum(single[-15:]), rel=0.05)


def test_a_missing_data_set_names_the_package():
    ended = run([*python(EXAMPLE), "--single", "--data", "/nowhere"])
    assert ended.code == 78 and "dataset-fashion-mnist" in ended.output, ended.output


def test_accuracy_stays_within_two_points_of_one_process_without_compression(tmp_path):
    reference = tmp_path / "single"
    images = ("--limit", 24000, "--epochs", 1)
    ended = run([*python(EXAMPLE), "--single", *images, "--report", reference])
    assert ended.code == 0, ended.output
    single = json.loads(reference.read_text())
    together = train(tmp_path / "together", *images)
    print(f"accuracy: {together['accuracy']:.4f} with 4 ranks, {single['accuracy']:.4f} in one process")
    assert together["steps"] == single["steps"] == 188
    assert together["accuracy"] > single["accuracy"] - 0.02
    assert len(set(together["weights_digest"])) == 1
