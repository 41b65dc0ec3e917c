"""A checkpoint of four ranks goes on in a world of any size."""

import json
import shutil

import pytest

from conftest import run_job

STEPS = 10  # half of a pass


def train(folder, world, store, *flags):
    run_job("checkpoints/resharded.py", folder / f"of{world}.json", STEPS, ranks=world, flags=("--store", store, *flags))
    return json.loads((folder / f"of{world}.json").read_text())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four")
    return train(folder, 4, folder / "store"), folder / "store"


@pytest.mark.parametrize("world", [1, 2, 3, 8])
def test_four_ranks_go_on_as(world, saved, tmp_path):
    four, store = saved
    shutil.copytree(store, tmp_path / "store")
    other = train(tmp_path, world, tmp_path / "store", "--resume")
    before, after = four["ended"], other["begun"]
    assert any(before["whole"]) and any(before["owed"])
    assert after["whole"] == before["whole"], "what all ranks together owe, exactly"
    scale = max(map(abs, before["owed"]))
    assert all(abs(a - b) <= 1e-6 * scale for a, b in zip(after["owed"], before["owed"])), "to float rounding"
    for what in ("step", "weights", "lr", "rows"):
        assert after[what] == before[what], what
    old = before["means"]
    assert after["means"] == [old[rank] if rank < 4 else old[0] for rank in range(world)]
    assert other["ended"]["step"] == 2 * STEPS and other["ended"]["weights"] != before["weights"]
    assert other["ended"]["rows"] == 480
    assert sorted(four["taken"] + other["taken"]) == list(range(480)), "each sample of the pass once"
