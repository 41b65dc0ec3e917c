"""docs/tutorial.md shows the files of examples/tutorial as they are."""

import difflib
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()


def block(language):
    return re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)[1]


def test_the_script_is_shown_whole():
    assert block("python") == (ROOT / "examples" / "tutorial" / "plain.py").read_text()


def test_the_changes_are_those_between_the_files():
    plain, parallel = ((ROOT / "examples" / "tutorial" / name).read_text().splitlines()[1:]
                       for name in ("plain.py", "parallel.py"))
    lines = list(difflib.unified_diff(plain, parallel, lineterm="", n=2))[2:]
    assert block("diff").splitlines() == [line.rstrip() for line in lines]
