"""`ringwood doctor` between hosts: network namespaces, of which one sends slowly and one drops connections; Slurm; ssh."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

import pytest

import clusters
from conftest import JOBS, PROGRAM, ROOT, environment, run

NETNS = ROOT / "bench" / "netns.sh"
HOSTS = 4


@pytest.fixture(scope="module")
def hosts():
    prefix = f"rwx{os.getpid() % 10000}"
    if os.geteuid() != 0 or not shutil.which("tc"):
        pytest.skip("network namespaces need root and iproute2")
    names = [f"{prefix}{i}" for i in range(HOSTS)]
    try:
        if subprocess.run([NETNS, "up", str(HOSTS), "1gbit", prefix], capture_output=True).returncode != 0:
            pytest.skip("no network namespaces with the htb queue here")
        yield names
    finally:
        subprocess.run([NETNS, "down", str(HOSTS), prefix], capture_output=True)


def doctor(names, *flags):
    command = [PROGRAM, "doctor", "-H", ",".join(names), "--rsh", "ip netns exec", "--network-interface", "eth0",
               "--trusted-fabric", *flags]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=600)


@contextlib.contextmanager
def slowed(name):
    change = ["ip", "netns", "exec", name, "tc", "class", "change", "dev", "eth0", "parent", "1:", "classid", "1:1", "htb"]
    subprocess.run([*change, "rate", "20mbit", "ceil", "20mbit", "burst", "16kb", "cburst", "16kb"], check=True)
    yield
    subprocess.run([*change, "rate", "1gbit", "ceil", "1gbit", "burst", "64kb", "cburst", "64kb"], check=True)


def test_a_slow_host_is_named(hosts):
    with slowed(hosts[2]):
        ended = doctor(hosts, "--json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    report = json.loads(ended.stdout)
    assert len(report["links"]) == HOSTS * (HOSTS - 1) // 2 and not any(link["error"] for link in report["links"])
    assert {link["interface"] for link in report["links"]} == {"eth0"}
    slow = [finding["where"] for finding in report["findings"] if finding["what"].startswith("it sends at")]
    assert hosts[2] in slow, ended.stdout


@pytest.mark.skipif(not shutil.which("nft"), reason="nftables is not installed")
def test_the_rules_keep_others_out_and_members_in(hosts):
    member, guarded, stranger = hosts[:3]
    rules = doctor([member, guarded], "--firewall", "--port-range", "20000-20019")
    assert rules.returncode == 0, rules.stderr
    subprocess.run(["ip", "netns", "exec", guarded, "nft", "-f", "-"], input=rules.stdout, text=True, check=True)
    try:
        ended = doctor([stranger, member, guarded], "--json", "--port-range", "20000-20019")
        links = {(link["from"], link["to"]): link["error"] for link in json.loads(ended.stdout)["links"]}
        assert ended.returncode == 78, ended.stdout
        assert "cannot connect" in links[stranger, guarded] and not links[member, guarded] and not links[stranger, member]
    finally:
        subprocess.run(["ip", "netns", "exec", guarded, "nft", "delete", "table", "inet", "ringwood"], check=True)


def seen_on_one_address(ended):
    """The report of two hosts that are this machine: one measured pair, and an error that names both."""
    assert ended.code == 78, ended.output
    report = json.loads(ended.output[ended.output.index("{"):])
    assert len(report["links"]) == 1 and report["links"][0]["error"] == "", ended.output
    return [host["host"] for host in report["hosts"]], [finding["where"] for finding in report["findings"]]


def test_the_hosts_of_a_slurm_allocation_are_asked_through_srun(tmp_path):
    if lacking := clusters.lacks("slurmctld", "slurmd", "munged", "salloc", "srun"):
        pytest.skip(lacking)
    with clusters.slurm(tmp_path) as variables:
        ended = run(["salloc", "--quiet", "--nodes", 2, PROGRAM, "doctor", "--json", "--network-interface", "lo"],
                    **variables)
    hosts, where = seen_on_one_address(ended)
    assert hosts == ["n0", "n1"] and "n0, n1" in where, ended.output


def test_hosts_are_asked_through_ssh(tmp_path):
    if lacking := clusters.lacks("sshd", "ssh", "ssh-keygen"):
        pytest.skip(lacking)
    with clusters.sshd(tmp_path) as remote_shell:
        ended = run([PROGRAM, "doctor", "--json", "-H", "127.0.0.1,127.0.0.2", "--rsh", remote_shell,
                     "--network-interface", "lo"])
    hosts, where = seen_on_one_address(ended)
    assert hosts == ["127.0.0.1", "127.0.0.2"] and "127.0.0.1, 127.0.0.2" in where, ended.output


def test_a_job_that_trains_meanwhile_is_seen_and_goes_on(tmp_path):
    history = tmp_path / "history"
    job = subprocess.Popen([PROGRAM, "run", "-np", "2", "--store", tmp_path / "store", "--port-range", "21400-21409", "--",
                            sys.executable, JOBS / "service" / "trained.py", history, "0"],
                           env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        end = time.monotonic() + 120
        while not history.exists() or not history.read_text():
            assert time.monotonic() < end and job.poll() is None
            time.sleep(0.05)
        ended = run([PROGRAM, "doctor", "--json", "--store", tmp_path / "store", "--port-range", "21400-21409"])
        report = json.loads(ended.output)
        assert report["hosts"][0]["ranks_running"] >= 2, ended.output
        assert any("of a job train here meanwhile" in finding["what"] for finding in report["findings"]), ended.output
        seen = history.read_text()
        while history.read_text() == seen:
            assert time.monotonic() < end and job.poll() is None
            time.sleep(0.05)
    finally:
        (tmp_path / "history.stop").touch()
        try:
            output, _ = job.communicate(timeout=600)
        finally:
            job.kill()
    assert job.returncode == 0, output
