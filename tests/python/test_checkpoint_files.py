"""Checkpoints as files of other tools: what is exported is the trainer's state, to the bit."""

import json
import subprocess

import pytest

from conftest import PROGRAM, run, run_job

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.torch", reason="pip install safetensors")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A store with a checkpoint of two ranks, and beside it what each rank had: 0.pt and 1.pt."""
    folder = tmp_path_factory.mktemp("trained")
    run_job("state_dict.py", folder, flags=("--store", folder / "store"))
    return folder


def export(trained, file, *flags, code=0):
    ended = run([PROGRAM, "checkpoint", "export", "--store", trained / "store", "--safetensors", file, *flags])
    assert ended.code == code, ended.output
    return ended.output


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype and one[name].shape == other[name].shape, name
        assert torch.equal(one[name].contiguous().view(-1).view(torch.uint8),
                           other[name].contiguous().view(-1).view(torch.uint8)), name
    return True


def test_an_export_is_the_state_dict_of_the_rank(trained, tmp_path):
    for rank in (0, 1):
        output = export(trained, tmp_path / "model.safetensors", "--rank", rank)
        assert "of step 6" in output, output
        assert same(safetensors.load_file(tmp_path / "model.safetensors"),
                    torch.load(trained / f"{rank}.pt")["model"])
    assert not list(tmp_path.glob("*.part"))


def test_without_a_rank_what_differs_between_them_is_left_out_and_said(trained, tmp_path):
    output = export(trained, tmp_path / "model.safetensors")
    assert "2 items left out, which each rank has of its own: --rank R" in output, output
    whole = torch.load(trained / "0.pt")["model"]
    whole = {name: whole[name] for name in whole if name not in ("2.running_mean", "2.running_var")}
    assert same(safetensors.load_file(tmp_path / "model.safetensors"), whole)
    with safetensors.safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert file.metadata()["format"] == "pt" and file.metadata()["ringwood.step"] == "6"


def test_one_tensor_alone_and_the_optimizers_state(trained, tmp_path):
    told = json.loads(export(trained, tmp_path / "one", "--items", "3.bias", "--json"))
    assert told["tensors"] == 1 and told["bytes"] == 2800 and told["step"] == 6, told
    state = torch.load(trained / "0.pt")
    assert same(safetensors.load_file(tmp_path / "one"), {"3.bias": state["model"]["3.bias"]})
    export(trained, tmp_path / "moments", "--items", "*/exp_avg_sq")
    assert same(safetensors.load_file(tmp_path / "moments"),
                {f"optimizers/0/state/{i}/exp_avg_sq": each["exp_avg_sq"]
                 for i, each in state["optimizer"]["state"].items()})


def test_what_cannot_be_exported_is_said(trained, tmp_path):
    file = tmp_path / "out"
    assert "no item of the checkpoint of step 6 is 'nonsense'" in export(trained, file, "--items", "nonsense", code=78)
    assert "has ranks 0 to 1, not 7" in export(trained, file, "--rank", 7, code=78)
    assert "no complete checkpoint of step 5" in export(trained, file, "--step", 5, code=78)
    assert "no regular file" in export(trained, tmp_path, code=78)
    assert not file.exists() and not list(tmp_path.iterdir())


def test_an_export_to_a_full_disk_leaves_nothing(trained, tmp_path):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        output = export(trained, tmp_path / "model.safetensors", code=75)
        assert "free space on this disk" in output, output
        assert not list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", tmp_path], check=True)
