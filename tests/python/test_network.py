"""The network between hosts fails, briefly or for good; where this machine has hosts (tests/netfaults.py)."""

import sys

import pytest

from conftest import PROGRAM, ROOT, run


@pytest.mark.parametrize("transport", ["ucx", "grpc"])
def test_a_cut_data_plane_is_named_and_an_outage_that_is_tolerated_survived(transport):
    ended = run([sys.executable, ROOT / "tests" / "netfaults.py", "--ringwood", PROGRAM, "--transport", transport,
                 "--shares", "0.5", "--slack", "100"])
    if "skipped" in ended.output:
        pytest.skip(ended.output)
    assert ended.code == 0, ended.output
