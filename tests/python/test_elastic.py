"""Elastic jobs: examples/elastic.py, whose histories keep the guarantees whether ranks die or not, and single steps."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
import torch

from conftest import PROGRAM, ROOT, environment, python, run_job

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


@pytest.mark.skipif(not hasattr(torch.amp, "GradScaler"), reason="PyTorch before 2.3 scales on CUDA devices only")
@pytest.mark.parametrize("given", [0, 1])
def test_who_comes_has_the_schedule_and_the_scale_of_the_others(tmp_path, given):
    ended = run_job("optimizer/newcomer.py", tmp_path / "mark", given, ranks=2, flags=("--elastic", "--max-restarts", 1))
    assert "both ranks: " in ended.output, ended.output


@pytest.mark.parametrize("flags", [(), ("--min-np", 3)], ids=["", "none are enough without it"])
def test_calls_between_two_steps_are_of_the_ranks_that_took_the_last_one(flags, tmp_path):
    ended = run_job("optimizer/evaluated.py", tmp_path / "mark", 10, ranks=3, flags=("--elastic", "--max-restarts", 1, *flags))
    assert all(f"rank {rank} of 3" in ended.output for rank in range(3)), ended.output
    # On a busy machine the server may warn meanwhile that a rank waits in a call: only a rank that waits in vain is blamed.
    assert "make the call on every rank" not in ended.output, ended.output
    assert "epoch 3 with 3 ranks" in ended.output, "who died came with the first step before which all had met"


def test_a_checkpoint_outlives_its_epoch_where_nothing_of_it_is_missing(tmp_path):
    ended = run_job("checkpoints/outliving.py", tmp_path / "mark", ranks=3,
                    flags=("--elastic", "--max-restarts", 1, "--checkpoint-rate", 1, "--store", tmp_path / "store"))
    if "none was under way" in ended.output:
        pytest.skip("the process came in the moment between two checkpoints")
    for rank in range(3):
        assert f"rank {rank}: the one under which a process came: complete" in ended.output, ended.output
    for rank in range(2):
        died = rf"rank {rank}: the one under which a process died: .*rank 2( stopped|:? .* is gone)"
        assert re.search(died, ended.output), ended.output
        assert f"rank {rank}: the next one: complete" in ended.output, ended.output


def test_the_state_for_a_rank_that_comes_is_held_no_longer_than_it_is_used(tmp_path):
    ended = run_job("elastic/given.py", tmp_path / "mark", ranks=2, flags=("--elastic", "--max-restarts", 1))
    assert all(f"rank {rank} holds nothing" in ended.output for rank in range(2)), ended.output


@pytest.mark.parametrize("backward", [0, 1])
def test_a_rank_may_leave_a_step_out(backward):
    run_job("elastic/left_out.py", backward, flags=("--elastic",))


def test_horovods_sum_is_one_of_ranks():
    run_job("elastic/sums.py", flags=("--elastic",))


def test_a_rank_that_was_away_when_the_job_ended_ends_too(tmp_path):
    """Its launcher would end it a moment later; here it has the time to hear that it ended."""
    ended = run_job("elastic/away.py", tmp_path / "ended", ranks=3, flags=("--elastic", "--failure-timeout", 3))
    assert "[2] ringwood.errors.JobEndedError: " in ended.output, ended.output
    assert re.search(r"job \w+ ended in order after step \d+, while this rank was away", ended.output), ended.output
    assert "exited with code" not in ended.output, ended.output


def test_ranks_with_other_numbers_resume(tmp_path):
    store = ("--elastic", "--store", tmp_path)
    run_job("elastic/fewer.py", ranks=3, flags=store)
    run_job("elastic/fewer.py", ranks=2, flags=(*store, "--resume"))


def died_early(rank, where):
    """How often each rank had been started before at the end."""
    ended = run_job("elastic/dies_early.py", rank, where, ranks=3, flags=("--elastic",))
    told = [f"rank {each}, started {before} times before" in ended.output for each in range(3) for before in range(2)]
    assert sum(told) == 3, ended.output
    return told[1::2]


@pytest.mark.parametrize("where", ["session", "optimizer", "broadcast"])
def test_a_death_before_the_first_step_ends_no_other_process(where):
    assert died_early(1, where) == [False, True, False]


def test_without_the_rank_whose_values_the_others_were_to_take_all_start_again():
    assert died_early(0, "optimizer") == [True, True, True]


class Job:
    """`ringwood run --elastic` of the example, without an end; its histories as they grow."""

    def __init__(self, folder, ranks):
        self.folder = folder
        self.log = folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "run", "--elastic", "-np", str(ranks), "--", *python(EXAMPLE), "--synthetic", "--limit",
                 "1000", "--epochs", "100000", "--history", folder / "history"],
                stdout=log, stderr=subprocess.STDOUT, env=environment(), start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def processes(self):
        """(rank, process) -> its events."""
        return {tuple(map(int, path.name.split(".")[1:])): check.read(path) for path in self.folder.glob("history.*")}

    def wait(self, holds):
        deadline = time.monotonic() + 120
        while not holds(self.processes()):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.05)


def steps(events):
    return [event for event in events if event["event"] == "step"]


def whole(processes, world, since=0.0):
    """Whether so many processes have committed steps together after that time."""
    return world == sum(any(step["world"] == world and step["time"] > since for step in steps(events))
                        for events in processes.values())


def test_a_killed_rank_comes_back_and_the_others_never_end(tmp_path):
    with Job(tmp_path, 3) as job:
        job.wait(lambda processes: whole(processes, 3))
        before = dict(job.processes())
        victim = next(process for rank, process in before if rank == 1)
        killed = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        job.wait(lambda processes: len(processes) == 4 and whole(
            {key: events for key, events in processes.items() if key[1] != victim}, 3, killed))
        after = job.processes()
    assert {key for key in after if key[0] != 1} == {key for key in before if key[0] != 1}
    assert not check.check(list(after.values()), faults=1)
    came = next(events for (rank, process), events in after.items() if rank == 1 and process != victim)
    first = steps(came)[0]
    assert first["received"] and not first["samples"]


def process_of(job, flag):
    """The job's process that was started with this flag."""
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.getsid(int(entry)) == job.process.pid:
                with open(f"/proc/{entry}/cmdline", encoding="utf-8") as file:
                    if flag in file.read().split("\0"):
                        return int(entry)
        except (ProcessLookupError, FileNotFoundError):
            continue
    raise AssertionError(f"no process of the job has {flag}:\n{job.log.read_text()}")


def test_coordinator_and_server_come_back_and_no_rank_ends(tmp_path):
    with Job(tmp_path, 2) as job:
        job.wait(lambda processes: whole(processes, 2))
        os.kill(process_of(job, "--no-reducer"), signal.SIGKILL)
        job.wait(lambda _: "coordinator again at" in job.log.read_text())
        back = time.monotonic()
        job.wait(lambda processes: whole(processes, 2, back))
        assert {step["epoch"] for events in job.processes().values() for step in steps(events)} == {1}
        os.kill(process_of(job, "--reducer-index=0"), signal.SIGKILL)
        job.wait(lambda _: "server 0 (host localhost) was killed" in job.log.read_text())
        killed = time.monotonic()
        job.wait(lambda processes: whole(processes, 2, killed))
        after = job.processes()
    assert len(after) == 2 and not check.check(list(after.values()), faults=2)
