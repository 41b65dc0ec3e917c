"""The server that leads dies, and then etcd's leader, in a job of real processes; `./dev chaos` has the full count."""

import pytest

from standby import ETCD
from test_chaos import run


@pytest.mark.skipif(ETCD is None, reason="etcd is not installed (Debian: etcd-server)")
def test_a_standby_takes_over_and_the_epoch_goes_on():
    said = run("standby", "2", "--ranks", "3")
    assert "| standby | 2 of 2 |" in said, said
