"""A job's secret and the tokens that are made from it, from the file to the call; and many jobs on one deployment of
two servers, each by its token: one that is killed again and again disturbs no other."""

import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

from clusters import free_ports
from conftest import JOBS, PROGRAM, environment, run
from test_membership import CONFIGURATION, RESTART, serving

SECONDS = 170  # for what takes one on an idle machine
KILLS = int(os.environ.get("RINGWOOD_TEST_KILLS", "3"))


class Job:
    """Two ranks of jobs/service/trained.py, which may be killed and started again."""

    def __init__(self, folder, name, address, steps=0):
        self.history, self.log, self.steps = folder / name, folder / f"{name}.log", steps
        token = folder / f"{name}.token"
        made = run([PROGRAM, "token", "job", name, "--token-file", folder / "secret", "--out", token])
        assert made.code == 0, made.output
        self.environment = {"RINGWOOD_COORDINATOR": address, "RINGWOOD_TOKEN_FILE": str(token), "WORLD_SIZE": "2",
                            "RINGWOOD_RESUME": "auto"}
        self.ranks = []

    def start(self):
        with open(self.log, "ab") as log:
            self.ranks = [subprocess.Popen([sys.executable, JOBS / "service" / "trained.py", self.history, str(self.steps)],
                                           env=environment(RANK=str(rank), **self.environment), stdout=log, stderr=log)
                          for rank in range(2)]

    def kill(self):
        for rank in self.ranks:
            rank.kill()
            rank.wait()
        self.ranks = []

    def lines(self):
        return self.history.read_text().splitlines() if self.history.exists() else []

    def trains_on(self, steps=3):
        seen, end = len(self.lines()), time.monotonic() + SECONDS
        while len(self.lines()) < seen + steps:
            assert time.monotonic() < end and all(rank.poll() is None for rank in self.ranks), self.said()
            time.sleep(0.02)

    def ends(self):
        for rank in self.ranks:
            assert rank.wait(SECONDS) == 0, self.said()

    def said(self):
        return self.log.read_text(errors="replace")[-4000:]


@pytest.fixture
def deployment(tmp_path):
    """The address of a deployment of two servers, and how to make its jobs."""
    assert run([PROGRAM, "token", "new", "--out", tmp_path / "secret"]).code == 0
    flags = ["--token-file", tmp_path / "secret", "--jobs", 4, "--servers", 2]
    jobs = []
    with contextlib.ExitStack() as stack:
        _, address = stack.enter_context(serving(*flags, "--store", tmp_path / "store"))
        further = stack.enter_context(subprocess.Popen(
            [str(word) for word in (PROGRAM, "server", "--coordinator", address, "--reducer-index", 1, *flags)],
            env=environment(), stdout=subprocess.DEVNULL))
        stack.callback(further.kill)

        def make(name, steps=0):
            jobs.append(Job(tmp_path, name, address, steps))
            stack.callback(jobs[-1].kill)
            return jobs[-1]

        yield address, make


def listed(address, secret):
    shown = run([PROGRAM, "jobs", "--coordinator", address, "--token-file", secret, "--json"])
    assert shown.code == 0, shown.output
    return {job["name"]: job for job in json.loads(shown.output)["jobs"]}


def test_a_job_that_is_killed_again_and_again_changes_no_bit_of_another(deployment, tmp_path):
    address, make = deployment
    steady, killed = make("steady"), make("killed")
    steady.start()
    steady.trains_on()
    for _ in range(KILLS):
        killed.start()
        killed.trains_on()
        killed.kill()
        steady.trains_on()
    end = time.monotonic() + SECONDS
    while (jobs := listed(address, tmp_path / "secret"))["killed"]["epoch"] < KILLS:
        assert time.monotonic() < end, jobs
    assert set(jobs) == {"steady", "killed"}, jobs
    assert jobs["steady"]["epoch"] == 1 and jobs["steady"]["ranks"] == 2 and jobs["steady"]["refused_calls"] == 0, jobs
    (tmp_path / "steady.stop").touch()
    steady.ends()
    history = steady.lines()
    assert [int(line.split()[0]) for line in history] == list(range(1, len(history) + 1))

    alone = make("alone", steps=len(history))
    alone.start()
    alone.ends()
    assert alone.lines() == history


def test_a_deployment_that_is_stopped_and_started_again_ends_no_job(tmp_path):
    assert run([PROGRAM, "token", "new", "--out", tmp_path / "secret"]).code == 0
    port = free_ports(1)
    flags = ["--listen", f"127.0.0.1:{port}", "--token-file", tmp_path / "secret", "--jobs", 2, "--servers", 0, "--store",
             tmp_path / "store"]
    with serving(*flags):
        job = Job(tmp_path, "steady", f"127.0.0.1:{port}")
        job.environment["RINGWOOD_COORDINATOR_GRACE"] = str(SECONDS)
        job.start()
        job.trains_on()
    try:
        with serving(*flags) as (_, address):
            job.trains_on()
            status = run([PROGRAM, "status", "--json", "--coordinator", address, "--token-file", tmp_path / "steady.token"])
            assert json.loads(status.output)["epoch"] == 1, status.output
            (tmp_path / "steady.stop").touch()
            job.ends()
        assert [int(line.split()[0]) for line in job.lines()] == list(range(1, len(job.lines()) + 1))
    finally:
        job.kill()


def test_commands_see_a_job_by_its_token_and_the_deployment_by_its_own(deployment, tmp_path):
    address, make = deployment
    job = make("seen")
    job.start()
    job.trains_on()
    secret, token = tmp_path / "secret", tmp_path / "seen.token"
    status = run([PROGRAM, "status", "--coordinator", address, "--token-file", token])
    assert status.code == 0 and "running" in status.output, status.output
    observer = tmp_path / "observer"
    made = run([PROGRAM, "token", "issue", "--role", "observer", "--token-file", token, "--out", observer])
    assert made.code == 0 and observer.read_text().startswith("seen/observer."), made.output
    assert run([PROGRAM, "status", "--coordinator", address, "--token-file", observer]).code == 0
    refused = run([PROGRAM, "status", "--coordinator", address, "--token-file", secret])
    assert refused.code == CONFIGURATION and "ringwood token job NAME" in refused.output, refused.output
    text = run([PROGRAM, "jobs", "--coordinator", address, "--token-file", secret])
    assert text.code == 0 and "seen" in text.output and "1 of at most 4 jobs are open" in text.output, text.output
    own = run([PROGRAM, "jobs", "--coordinator", address, "--token-file", token])
    assert own.code == 0 and "seen" in own.output and "jobs are open" not in own.output, own.output
    assert run([PROGRAM, "jobs", "--store", tmp_path / "store"]).code == 0
    by_folder = run([PROGRAM, "status", "--store", tmp_path / "store" / "jobs" / "seen"])
    assert by_folder.code == 0 and "running" in by_folder.output, by_folder.output


def test_a_job_of_more_calls_than_it_may_is_slowed_and_trains_on(tmp_path):
    assert run([PROGRAM, "token", "new", "--out", tmp_path / "secret"]).code == 0
    (tmp_path / "limits").write_text("busy calls=10\n")
    with serving("--token-file", tmp_path / "secret", "--jobs", 2, "--servers", 0, "--store", tmp_path / "store",
                 "--job-limits", tmp_path / "limits") as (_, address):
        job = Job(tmp_path, "busy", address, steps=30)
        try:
            job.start()
            job.ends()
        finally:
            job.kill()
        assert len(job.lines()) == 30
        jobs = listed(address, tmp_path / "secret")
        assert jobs["busy"]["delayed_calls"] > 0 and jobs["busy"]["refused_calls"] == 0, jobs
        text = run([PROGRAM, "jobs", "--coordinator", address, "--token-file", tmp_path / "secret"])
        assert "of its calls waited for their turn (calls= in --job-limits)" in text.output, text.output


def test_a_server_of_one_job_has_no_list_of_jobs():
    with serving() as (_, address):
        shown = run([PROGRAM, "jobs", "--coordinator", address])
        assert shown.code == CONFIGURATION and "ringwood status" in shown.output, shown.output


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
            output, _ = process.communicate(timeout=600)
            assert process.returncode == 0, output


def test_a_job_outlives_its_token_where_that_is_renewed_and_else_ends_with_the_file_named(tmp_path):
    secret, token = tmp_path / "secret", tmp_path / "token"
    assert run([PROGRAM, "token", "new", "--out", secret]).code == 0

    def renew(lasts):
        issue(secret, "rank", lasts).replace(token)

    renew("1h")
    history = tmp_path / "history"
    steps = lambda: len(history.read_text().splitlines()) if history.exists() else 0  # noqa: E731
    with serving("--token-file", secret) as (server, address), contextlib.ExitStack() as stack:
        ranks = [stack.enter_context(subprocess.Popen(
            [sys.executable, JOBS / "service" / "trained.py", history, "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env=environment(RANK=str(number), WORLD_SIZE="2", RINGWOOD_COORDINATOR=address,
                                       RINGWOOD_TOKEN_FILE=str(token)))) for number in range(2)]
        for process in ranks:
            stack.callback(process.kill)
        end = time.monotonic() + SECONDS
        while not steps():
            assert time.monotonic() < end and all(process.poll() is None for process in ranks)
            time.sleep(0.05)
        for _ in range(7):  # the first of them has expired before the last one is written
            renew("8s")
            time.sleep(1.5)
            assert all(process.poll() is None for process in ranks), [process.communicate()[0] for process in ranks]
        seen = steps()
        ended = [(process.communicate(timeout=SECONDS)[0], process.returncode) for process in ranks]
        told = [output for output, code in ended if code == CONFIGURATION]
        assert told, ended
        for output in told:
            assert "a token of the role rank that expired at" in output and "`ringwood token issue`" in output, output
            assert f"has its token from {token} and reads that again when it changes" in output, output
        # One may hear of the other's end before its next call is refused.
        assert all(code in (CONFIGURATION, RESTART) for _, code in ended), ended
        assert steps() > seen and server.poll() is None


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
