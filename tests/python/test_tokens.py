"""A job's secret and the tokens that are made from it, from the file to the call."""

import contextlib
import subprocess
import sys

from conftest import JOBS, PROGRAM, environment, run
from test_membership import CONFIGURATION, serving


def issue(secret, role, lasts="1h"):
    file = secret.parent / f"{role}-{lasts}"
    made = run([PROGRAM, "token", "issue", "--role", role, "--for", lasts, "--token-file", secret, "--out", file])
    assert made.code == 0 and f"a token of the role {role} until" in made.output, made.output
    assert file.stat().st_mode & 0o777 == 0o600 and file.read_text().strip() not in made.output
    return file


def rank(number, address, token):
    return subprocess.Popen([sys.executable, JOBS / "dense.py"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=environment(RANK=str(number), WORLD_SIZE="2", RINGWOOD_COORDINATOR=address,
                                            RINGWOOD_TRANSPORT="grpc", RINGWOOD_TOKEN_FILE=str(token)))


def test_each_role_does_what_it_may_and_is_told_what_it_needs(tmp_path):
    secret = tmp_path / "secret"
    assert run([PROGRAM, "token", "new", "--out", secret]).code == 0
    tokens = {role: issue(secret, role) for role in ("rank", "server", "observer")}
    with serving("--token-file", secret, "--transport", "grpc", "--servers", 2) as (_, address), contextlib.ExitStack() as stack:
        further = stack.enter_context(subprocess.Popen(
            [PROGRAM, "server", "--coordinator", address, "--reducer-index", "1", "--servers", "2", "--transport", "grpc"],
            env=environment(RINGWOOD_TOKEN_FILE=str(tokens["server"])), stdout=subprocess.DEVNULL))
        stack.callback(further.kill)

        watched = run([PROGRAM, "status", "--coordinator", address], RINGWOOD_TOKEN_FILE=str(tokens["observer"]))
        assert watched.code == 0, watched.output
        refused = run([sys.executable, JOBS / "dense.py"], RANK="0", WORLD_SIZE="2", RINGWOOD_COORDINATOR=address,
                      RINGWOOD_TRANSPORT="grpc", RINGWOOD_TOKEN_FILE=str(tokens["observer"]))
        assert refused.code == CONFIGURATION, refused.output
        assert "Coordinator.Join needs a token of the role rank or server, this one is of the role observer" in refused.output
        assert tokens["observer"].read_text().strip() not in refused.output

        # One rank has the secret, the other a token, the second server another one: their data connections,
        # too, know each other.
        ranks = [stack.enter_context(rank(0, address, tokens["rank"])), stack.enter_context(rank(1, address, secret))]
        for process in ranks:
            output, _ = process.communicate(timeout=180)
            assert process.returncode == 0, output


def test_a_token_makes_no_tokens_and_starts_no_server(tmp_path):
    secret = tmp_path / "secret"
    assert run([PROGRAM, "token", "new", "--out", secret]).code == 0
    token = issue(secret, "rank")
    refused = run([PROGRAM, "token", "issue", "--token-file", token])
    assert refused.code == CONFIGURATION and "a token of the role rank makes no tokens" in refused.output, refused.output
    refused = run([PROGRAM, "server", "--listen", "127.0.0.1:0", "--insecure", "--token-file", token])
    assert refused.code == CONFIGURATION and "give it the job's secret" in refused.output, refused.output


def test_a_token_file_that_others_can_read_is_refused_as_ssh_does(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("known-to-all")
    secret.chmod(0o644)
    server = [PROGRAM, "server", "--listen", "127.0.0.1:0", "--insecure", "--token-file", secret]
    for refused in (run(server), run([PROGRAM, "status", "--coordinator", "127.0.0.1:1"], RINGWOOD_TOKEN_FILE=str(secret)),
                    run([sys.executable, JOBS / "dense.py"], RANK="0", WORLD_SIZE="1", RINGWOOD_COORDINATOR="127.0.0.1:1",
                        RINGWOOD_TOKEN_FILE=str(secret))):
        assert refused.code == CONFIGURATION, refused.output
        assert f"others can read {secret}" in refused.output and "chmod 600" in refused.output, refused.output
        assert "known-to-all" not in refused.output
