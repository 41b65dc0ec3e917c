"""examples/elastic.py: its histories keep the guarantees, whether ranks die or not."""

import sys

import pytest

from conftest import ROOT, run_job

sys.path.insert(0, str(ROOT / "tests" / "chaos"))
import check  # noqa: E402

EXAMPLE = ROOT / "examples" / "elastic.py"
SAMPLES, PASSES = 300, 3


@pytest.mark.parametrize("ranks", [1, 3])
def test_every_image_of_a_pass_is_used_once(tmp_path, ranks):
    run_job(EXAMPLE, "--synthetic", "--limit", SAMPLES, "--batch", 64, "--epochs", PASSES, "--history",
            tmp_path / "history", ranks=ranks)
    histories = [check.read(path) for path in tmp_path.iterdir()]
    assert len(histories) == ranks and not check.check(histories, faults=0)
    used = [(event["pass"], sample) for events in histories for event in events if event["event"] == "step"
            for sample in event["samples"]]
    assert sorted(used) == [(passed, sample) for passed in range(PASSES) for sample in range(SAMPLES)]
