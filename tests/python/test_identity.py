"""Certificates, from `ringwood ca` and `ringwood run --tls` to the call."""

import pathlib
import re
import subprocess
import sys

import pytest

from conftest import JOBS, PROGRAM, environment, run, run_job
from test_membership import CONFIGURATION, serving


def make_authority(folder):
    assert run([PROGRAM, "ca", "init", folder]).code == 0
    return folder


def issue(authority, folder, role, slot="any"):
    issued = run([PROGRAM, "ca", "issue", authority, "--job", "mnist", "--role", role, "--slot", slot, "--out", folder])
    assert issued.code == 0, issued.output
    return folder


def rank(number, address, identity, **more):
    return subprocess.Popen([sys.executable, JOBS / "dense.py"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=environment(RANK=str(number), WORLD_SIZE="2", RINGWOOD_COORDINATOR=address,
                                            RINGWOOD_IDENTITY=str(identity), **more))


def test_a_run_with_tls_gives_each_process_its_own_certificate():
    script = (f'{PROGRAM} ca show "$RINGWOOD_IDENTITY"; echo "rank $RANK in $RINGWOOD_IDENTITY";'
              'stat -c "mode %a" "$RINGWOOD_IDENTITY" "$RINGWOOD_IDENTITY/key.pem";'
              'tr "\\0" "\\n" < /proc/$PPID/cmdline')
    ended = run([PROGRAM, "run", "--tls", "-np", 2, "--", "sh", "-c", script])
    assert ended.code == 0, ended.output
    for number in (0, 1):
        assert re.search(rf"ringwood://[0-9a-f]{{16}}/rank/{number}\b", ended.output), ended.output
    folders = re.findall(r"rank \d in (\S+)", ended.output)
    assert len(set(folders)) == 2 and not any(pathlib.Path(folder).exists() for folder in folders), ended.output
    assert ended.output.count("mode 700") == 2 and ended.output.count("mode 600") == 2, ended.output
    assert "PRIVATE KEY" not in ended.output


@pytest.mark.parametrize("flags", [(), ("--elastic",)], ids=["fixed", "elastic"])
def test_a_job_trains_under_tls(flags):
    ended = run_job("dense.py", flags=("--tls", *flags))
    assert "gRPC with TLS" in ended.output, ended.output


def test_whom_a_dead_rank_leaves_is_known_by_its_certificate_whatever_its_number_is_now():
    ended = run_job("failing.py", "kill", ranks=3, flags=("--tls", "--elastic", "--max-restarts", 0))
    assert "epoch 2 with 2 ranks: 0,2" in ended.output and "epoch 3" not in ended.output, ended.output
    assert "DeniedError" not in ended.output, ended.output


def test_servers_and_ranks_by_hand_know_each_other_and_nobody_else(tmp_path):
    authority, other = make_authority(tmp_path / "ca"), make_authority(tmp_path / "other")
    server = issue(authority, tmp_path / "server", "server", "0")
    issue(authority, tmp_path / "ranks", "rank", "0-1")
    observer = issue(authority, tmp_path / "observer", "observer")
    store = tmp_path / "store"
    with serving("--identity", server, "--store", store) as (_, address):
        for arguments, changes in (((), {"RINGWOOD_IDENTITY": str(observer)}), (("--store", store), {})):
            watched = run([PROGRAM, "status", "--coordinator", address, *arguments], **changes)
            assert watched.code == 0, watched.output
        refused = run([PROGRAM, "status", "--coordinator", address])
        assert refused.code == CONFIGURATION and "speaks TLS: give this process a certificate" in refused.output, refused.output

        strangers = {issue(other, tmp_path / "stranger", "rank", "0"): "the certificate of the server at",
                     tmp_path / "ranks" / "rank-1": "ringwood://mnist/rank/1 is not that of rank 0",
                     observer: "is not that of rank 0"}
        for identity, sentence in strangers.items():
            with rank(0, address, identity) as stranger:
                output, _ = stranger.communicate(timeout=600)
            assert stranger.returncode != 0 and sentence in output, output

        members = [rank(number, address, tmp_path / "ranks" / f"rank-{number}") for number in (0, 1)]
        for member in members:
            output, _ = member.communicate(timeout=600)
            assert member.returncode == 0, output


def test_a_certificate_is_not_used_in_plaintext(tmp_path):
    identity = issue(make_authority(tmp_path / "ca"), tmp_path / "rank", "rank", "0")
    with serving() as (_, address):
        with rank(0, address, identity) as stranger:
            output, _ = stranger.communicate(timeout=600)
        assert stranger.returncode != 0 and "speaks plaintext" in output, output
