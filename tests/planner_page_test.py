"""docs/planner.md predicts what the program does: its tables are those of bench/plan/models.py."""

import os
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench/plan"))
import models  # noqa: E402 (found beside this folder)

PROGRAM = pathlib.Path(os.environ.get("RINGWOOD_BUILD", ROOT / "build/release")) / "bin/ringwood"
PAGE = (ROOT / "docs" / "planner.md").read_text()


def tables():
    """The heading's network -> the rows below it."""
    found = re.finditer(r"^\*\*([^*]+)\*\* \(`([^`]+)`\)\n\n((?:\|.*\n)+)", PAGE, re.M)
    return {match[1]: (match[2], match[3].splitlines()) for match in found}


@pytest.mark.parametrize("name", models.NETWORKS)
def test_a_table_has_what_the_planners_predict(name):
    network, rows = tables()[name]
    assert network == models.NETWORKS[name]
    assert [row.split("|")[1].strip() for row in rows[2:]] == list(models.MODELS)
    for model in ("resnet50", "bert", "ncf"):
        assert models.row(PROGRAM, model, network) in rows


def test_the_short_table_has_the_figures_of_the_long_one():
    rows = {row.split("|")[1].strip(): row.split("|") for row in tables()["1 GbE, 4 workers"][1]}
    places = [rows["model"].index(f" {name} ") for name in ("fixed", "exact", "hybrid")]
    short = PAGE[PAGE.index("| model | DDP's buckets"):PAGE.index("\n* At 1 Gbit/s")].splitlines()[2:]
    for model in ("vgg16", "resnet50", "bert", "gpt2"):
        assert "|".join(["", f" {model} ", *(rows[model][place] for place in places), ""]) in short
