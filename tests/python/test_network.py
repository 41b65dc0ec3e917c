"""Jobs between hosts, where this machine has them: over IPv4 and IPv6 (tests/netns.sh), and with a network that fails,
briefly or for good (tests/netfaults.py)."""

import sys

import pytest

from conftest import PROGRAM, ROOT, run


def test_jobs_run_between_hosts_with_ipv4_and_with_ipv6_alone():
    ended = run([ROOT / "tests" / "netns.sh", PROGRAM], timeout=1200)
    if "skipped" in ended.output:
        pytest.skip(ended.output)
    assert ended.code == 0 and "all passed" in ended.output, ended.output


@pytest.mark.parametrize("transport", ["ucx", "grpc"])
def test_a_cut_data_plane_is_named_and_an_outage_that_is_tolerated_survived(transport):
    ended = run([sys.executable, ROOT / "tests" / "netfaults.py", "--ringwood", PROGRAM, "--transport", transport,
                 "--shares", "0.5", "--slack", "100"])
    if "skipped" in ended.output:
        pytest.skip(ended.output)
    assert ended.code == 0, ended.output


@pytest.mark.parametrize("interface", ["l", "=lo"])
def test_servers_read_an_interface_as_ranks_do(interface):
    ended = run([PROGRAM, "bench", "sparse", "--workers", 2, "--network-interface", interface, "--trusted-fabric",
                 "--elements", 10000, "--entries", 100, "--rounds", 1])
    assert ended.code == 0, ended.output
