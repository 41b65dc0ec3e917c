"""Checkpoints as files of other tools: what is exported is the trainer's state, to the bit."""

import json
import os
import re
import shlex
import signal
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


def test_an_export_to_a_link_is_the_file_that_the_link_names(trained, tmp_path):
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to("target")
    for before in (None, b"older"):
        if before:
            target.write_bytes(before)
        export(trained, link)
        assert link.is_symlink() and len(safetensors.load_file(target)) > 2


def test_an_export_replaces_no_name_of_the_output(trained, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("/proc/self/fd/1")
    with open(tmp_path / "output", "wb") as output:
        ended = subprocess.run([PROGRAM, "checkpoint", "export", "--store", trained / "store", "--safetensors", link],
                               stdout=output, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 78 and "in /dev or /proc, nor with a pipe: name a file" in ended.stderr, ended.stderr
    assert link.is_symlink() and not (tmp_path / "output").read_bytes()


def modes_in(folder):
    return {oct(each.stat().st_mode & 0o777) for each in folder.rglob("*") if each.is_file()}


def test_what_commands_write_into_a_store_is_for_its_user_alone(tmp_path):
    safetensors.save_file({"a": torch.ones(3)}, tmp_path / "in")
    store = tmp_path / "store"
    for step in (1, 2, 3):
        import_(store, tmp_path / "in", "--step", step, "--job", "00000000000000aa")
        assert modes_in(store) == {"0o600"}
    for words in (("pin", "--step", 2, "--label", "kept"), ("pin", "--step", 2, "--unpin"), ("prune",), ("verify",),
                  ("list",), ("show",)):
        ended = run([PROGRAM, "checkpoint", *words, "--store", store])
        assert ended.code == 0, ended.output
        assert modes_in(store) == {"0o600"}, words


def test_an_export_to_a_full_disk_leaves_nothing(trained, tmp_path):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        output = export(trained, tmp_path / "model.safetensors", code=75)
        assert "free space on this disk" in output, output
        assert not list(tmp_path.iterdir())
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_the_command_that_an_import_prints_is_one_for_a_shell(tmp_path):
    safetensors.save_file({"a": torch.ones(3)}, tmp_path / "in")
    store = tmp_path / "it's a store; true"
    printed = re.search("`(.*)`", import_(store, tmp_path / "in"))[1]
    assert shlex.split(printed)[3] == str(store), printed


def import_(store, file, *flags, code=0):
    ended = run([PROGRAM, "checkpoint", "import", "--store", store, "--safetensors", file, *flags])
    assert ended.code == code, ended.output
    return ended.output


def test_a_job_of_any_size_goes_on_from_an_imported_model(trained, tmp_path):
    export(trained, tmp_path / "model.safetensors", "--rank", 1)
    told = json.loads(import_(tmp_path / "store", tmp_path / "model.safetensors", "--step", 50, "--json"))
    assert told["tensors"] == 13 and told["step"] == 50 and told["epoch"] == 1, told
    ended = run_job("imported.py", trained / "1.pt", 50, 600, ranks=3,
                    flags=("--store", tmp_path / "store", "--resume-job", told["job"]))
    assert "13 imported tensors are the model's; optimizer" in ended.output, ended.output
    listed = json.loads(run([PROGRAM, "checkpoint", "list", "--store", tmp_path / "store", "--json"]).output)
    assert [(each["step"], each["world"], each["job"]) for each in listed] == [(52, 3, told["job"]),
                                                                              (50, 1, told["job"])]


def test_steps_that_were_logged_after_an_import_are_replayed(trained, tmp_path):
    export(trained, tmp_path / "model.safetensors", "--rank", 1)
    import_(tmp_path / "store", tmp_path / "model.safetensors")
    flags = ("--store", tmp_path / "store", "--resume", "--update-log")
    run_job("imported.py", trained / "1.pt", 0, 600, tmp_path / "then.pt", flags=flags)
    ended = run_job("imported.py", tmp_path / "then.pt", 2, 600, tmp_path / "end.pt", flags=flags)
    assert "2 logged steps replayed" in ended.output, ended.output


def test_weights_of_another_model_are_refused_by_name(trained, tmp_path):
    export(trained, tmp_path / "model.safetensors")  # of no rank: without running statistics
    import_(tmp_path / "store", tmp_path / "model.safetensors")
    ended = run_job("imported.py", trained / "0.pt", 0, 500, flags=("--store", tmp_path / "store", "--resume"),
                    code=78)
    assert "the imported weights are not this model's" in ended.output, ended.output
    assert "2.running_mean" in ended.output and "size mismatch for 0.weight" in ended.output, ended.output


def test_a_file_of_transformers_kind_is_imported_and_exported_again(tmp_path):
    """Types that no gradient has, single numbers, empty tensors, any names."""
    state = {"a b/c": torch.arange(6, dtype=torch.int16).view(2, 3), "ü": torch.tensor(True),
             "f8": torch.ones(3).to(torch.float8_e4m3fn), "none": torch.empty(0, 3, dtype=torch.float64)}
    safetensors.save_file(state, tmp_path / "in", {"format": "pt", "made by": "a test\n"})
    import_(tmp_path / "store", tmp_path / "in")
    ended = run([PROGRAM, "checkpoint", "export", "--store", tmp_path / "store", "--safetensors", tmp_path / "out"])
    assert ended.code == 0, ended.output
    assert same(safetensors.load_file(tmp_path / "out"), state)


def test_an_import_that_is_interrupted_leaves_nothing(tmp_path):
    """The signal is there from the start, and waits until the command looks."""
    safetensors.save_file({"w": torch.zeros(1000)}, tmp_path / "in.safetensors")

    def interrupt():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        os.kill(os.getpid(), signal.SIGINT)

    ended = subprocess.run([PROGRAM, "checkpoint", "import", "--store", tmp_path / "store", "--safetensors",
                            tmp_path / "in.safetensors"], preexec_fn=interrupt, capture_output=True, text=True)
    assert ended.returncode == 128 + signal.SIGINT and "nothing was imported" in ended.stderr, ended
    assert not list((tmp_path / "store" / "checkpoints" / "incoming").iterdir())
    listed = run([PROGRAM, "checkpoint", "list", "--store", tmp_path / "store", "--json"])
    assert listed.code == 0 and '"step"' not in listed.output, listed.output


def test_what_cannot_be_imported_is_said(trained, tmp_path):
    assert "no safetensors file" in import_(tmp_path / "store", trained / "0.pt", code=78)
    assert "No such file" in import_(tmp_path / "store", tmp_path / "nowhere", code=78)
    assert not (tmp_path / "store").exists()
    safetensors.save_file({"w": torch.ones(1)}, tmp_path / "in")
    assert "is not a Ringwood store" in import_(tmp_path, tmp_path / "in", code=78)
    assert "--job: 'nonsense' is not" in import_(tmp_path / "store", tmp_path / "in", "--job", "nonsense", code=78)
