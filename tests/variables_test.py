"""docs/reference.md has every environment variable that the product names."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDERS = ("base", "transport", "proto", "timeline", "server", "client", "launch", "measure", "doctor", "cli", "python")
NAME = re.compile(r"""["']((?:RINGWOOD|SLURM|OMPI|PMI|PMIX|MASTER|LOCAL|GROUP)_[A-Z][A-Z_]*|RANK|WORLD_SIZE|TMPDIR)["']""")


def named():
    return {name for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in (".cc", ".h", ".py")
            for name in NAME.findall(path.read_text())}


def test_the_reference_has_every_variable_that_the_code_names():
    page = (ROOT / "docs" / "reference.md").read_text()
    assert {"RANK", "RINGWOOD_TOKEN", "SLURM_PROCID"} <= named()
    assert not {name for name in named() if f"`{name}`" not in page}
