"""What a dying rank does to the others, and what a restart makes of it."""

import re
import sys
import textwrap

import pytest

from conftest import JOBS, PROGRAM, run, run_job

RESTART = 75


@pytest.mark.parametrize("how, words", [
    ("raise", "ValueError: boom on purpose"), ("bare", "ValueError: boom on purpose"),
    ("exit", "gone on purpose")])
def test_an_exception_in_one_rank_stops_all_with_its_name(how, words):
    ended = run_job("failing.py", how, ranks=3, code=1)
    told = [line for line in ended.output.splitlines() if "ringwood.errors." in line]
    assert len(told) >= 2 and all("rank 1" in line for line in told), ended.output
    # One traceback, the one that matters; "  | " stands before what the launcher repeats.
    tracebacks = re.findall(r"^(?!  \|).*Traceback", ended.output, re.MULTILINE)
    assert len(tracebacks) == (how != "exit"), ended.output
    summary = ended.output[ended.output.index("failed first"):]
    assert words in summary, ended.output  # its last words, not those of the ranks that followed it
    assert "ringwood.errors." not in summary, ended.output
    assert re.search(r"rank 1 .*exited with code 1", ended.output), ended.output


def test_a_long_exception_is_told_to_all_and_blamed_on_its_rank():
    """A status travels in headers of 8 KiB; the notice has all of it."""
    ended = run_job("failing.py", "long", ranks=3, code=1)
    told = [line for line in ended.output.splitlines() if "ringwood.errors." in line]
    assert len(told) >= 2 and all("rank 1" in line for line in told), ended.output[-4000:]
    assert "rank 1 (host localhost) failed first" in ended.output, ended.output[-4000:]
    assert any("the end of nine thousand" in line for line in told), ended.output[-4000:]


@pytest.mark.parametrize("how, verdict", [("kill", "SIGKILL"), ("stop", "SIGSTOP")])
def test_a_dead_or_stopped_rank_is_found_and_named(how, verdict):
    ended = run_job("failing.py", how, ranks=3, code=RESTART, flags=("--failure-timeout", 4))
    told = [line for line in ended.output.splitlines() if "Error" in line]
    assert told and all("rank 1" in line for line in told), ended.output
    assert verdict in ended.output


def test_a_killed_rank_whose_child_lives_is_a_broken_connection_and_not_silence():
    ended = run_job("orphan.py", code=RESTART, flags=("--failure-timeout", 100))
    assert "the child has []" in ended.output, ended.output
    assert "its heartbeat stream broke" in ended.output and "silent" not in ended.output, ended.output


@pytest.mark.parametrize("victims", ["one", "all"])
def test_a_killed_run_resumes_to_the_bits_of_the_uninterrupted(tmp_path, victims):
    """Weights, residuals and velocities; after a restart by the launcher, and by --resume."""
    whole, restarted, resumed = (tmp_path / name for name in ("whole", "restarted", "resumed"))
    run_job("train.py", whole, "nobody", ranks=3)
    flags = ("--failure-timeout", 5)
    ended = run_job("train.py", restarted, victims, ranks=3,
                    flags=(*flags, "--max-restarts", 1, "--store", tmp_path / "a"))
    assert "resumed" in ended.output, ended.output
    assert restarted.read_text() == whole.read_text()
    store = ("--store", tmp_path / "b")
    run_job("train.py", resumed, victims, ranks=3, flags=(*flags, *store), code=RESTART)
    listing = run([PROGRAM, "checkpoint", "list", *store])
    assert listing.code == 0 and re.search(r"\b[48]\b.* \d\d:\d\d:\d\dZ ", listing.output), listing.output
    ended = run_job("train.py", resumed, "nobody", ranks=3, flags=(*flags, *store, "--resume"))
    assert "resumed" in ended.output, ended.output
    assert resumed.read_text() == whole.read_text()


def test_a_killed_pytorch_training_resumes_to_the_same_bits(tmp_path):
    """Weights, optimizer, dense velocity, residuals and the random state of dropout."""
    whole, restarted = tmp_path / "whole", tmp_path / "restarted"
    run_job("train_torch.py", whole, 0)
    ended = run_job("train_torch.py", restarted, 11,
                    flags=("--max-restarts", 1, "--store", tmp_path / "a"))
    assert "resumed at step" in ended.output, ended.output
    assert restarted.read_text() == whole.read_text()


def test_a_training_from_a_loader_resumes_to_the_same_bits(tmp_path):
    """In the middle of a pass, where the resumed job makes one more iterator, and where a pass begins."""
    whole = tmp_path / "whole"
    run_job("checkpoints/loaded.py", whole, 0, 0)
    for workers, last in ((0, 8), (2, 8), (0, 10), ("2p", 8), ("2p", 10)):
        place = tmp_path / f"{workers}-{last}"
        ended = run_job("checkpoints/loaded.py", place, workers, last,
                        flags=("--failure-timeout", 5, "--max-restarts", 1, "--store", f"{place}-store"))
        assert f"resumed at step {last}" in ended.output, ended.output
        assert place.read_text() == whole.read_text(), (workers, last)


@pytest.mark.parametrize("ending, code, told", [
    ("raise ValueError('mine')", 1, "Traceback"),
    ("raise errors.InvalidError('the input')", 78, "Traceback"),
    ("raise errors.ExhaustedError('write: No space left on device')", RESTART, "Traceback"),
    ("raise errors.UnavailableError('rank 1 died')", RESTART, "ringwood.errors.UnavailableError: rank 1 died\n"),
    ("try: raise errors.AbortedError('rank 1 died')\n"
     "except Exception as error: raise RuntimeError('a framework says so') from error", RESTART, "Traceback"),
    ("try: raise errors.InternalError('a fault')\nfinally: raise SystemExit(3)", 3, "")])
def test_the_exit_code_says_whether_a_restart_helps(ending, code, told):
    ended = run([sys.executable, "-c", f"from ringwood import ending, errors\nending.install()\n{ending}"])
    assert ended.code == code and ended.output.startswith(told), ended.output


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize(("does", "told"), [
    ("returns", "all workers left cleanly after step 3"),
    ("raises", "failed at step 4 of epoch 1: ValueError: invalid literal"),
    ("exits", "failed at step 4 of epoch 1: SystemExit: 3")])
def test_a_process_of_multiprocessing_leaves_as_a_program_does(how, does, told):
    """Python ends it without exit handlers, and prints its exception by itself."""
    ended = run([PROGRAM, "server", "--", sys.executable, JOBS / "forked.py", how, does])
    assert f"{told}" in ended.output, ended.output


def test_torchs_spawn_hides_an_exception_from_nobody():
    ended = run([PROGRAM, "server", "--", sys.executable, JOBS / "forked.py", "spawn", "spawned"])
    assert "failed at step 4 of epoch 1: ValueError: invalid literal" in ended.output, ended.output


def test_what_the_others_are_told_of_an_exception_names_the_line_of_the_program():
    script = """
        import ringwood
        from ringwood.errors import sentence_of
        for raises in lambda: ringwood.Sampler(0, 1), lambda: exec("raise KeyboardInterrupt"):
            try:
                raises()
            except BaseException as error:
                print(sentence_of(error))"""
    told = run([sys.executable, "-c", textwrap.dedent(script)]).output.splitlines()
    assert told[0].startswith("InvalidError: a sampler of 0 samples") and told[0].endswith(" (<string>:4)"), told
    assert told[1] == "KeyboardInterrupt (<string>:1)", told
