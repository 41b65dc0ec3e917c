"""The examples, given what they cannot use: one line says what is wrong."""

import gzip
import sys

import pytest

from conftest import PROGRAM, ROOT, run, run_job

EXAMPLES = ROOT / "examples"
CONFIGURATION_ERROR = 78


@pytest.fixture
def folder(tmp_path):
    """With a text that is too short, one that is none, and a torn data set."""
    (tmp_path / "short").write_text("short")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes([0, 0, 8, 3]) + bytes(1000))[:-20])
    return tmp_path


@pytest.mark.parametrize(("example", "arguments", "words"), [
    ("char_lstm", "--text {}/short", "short has 5 letters, and windows of this length need 50"),
    ("char_lstm", "--text {}/binary", "binary is no text in UTF-8"),
    ("char_lstm", "--text {}/none", "none'; name another text with --text"),
    ("local_steps", "--text {}/short", "short has 5 letters"),
    ("fashion_mnist", "--single --data {}", "train-images-idx3-ubyte.gz is no file of the data set"),
    ("fashion_mnist", "--limit -1", "--limit at least 0")])
def test_what_it_cannot_use_is_named(example, arguments, words, folder):
    ended = run([sys.executable, EXAMPLES / f"{example}.py", *arguments.format(folder).split()])
    assert ended.code == CONFIGURATION_ERROR and words in ended.output and "Traceback" not in ended.output, ended.output


def test_a_word_for_a_number_of_steps_is_named():
    ended = run([sys.executable, EXAMPLES / "fashion_mnist.py", "--checkpoint-every", "often"])
    assert "--checkpoint-every: invalid interval value: 'often'" in ended.output, ended.output


def test_replicas_that_do_not_divide_the_ranks_are_named():
    ended = run_job(EXAMPLES / "fsdp.py", "--replicas", 3, code=2)
    assert "--replicas 3 does not divide the 2 ranks" in ended.output, ended.output


@pytest.mark.parametrize("arguments", [(), ("2",), ("two", __file__), ("2", "/nowhere/train.py")])
def test_ranks_in_actors_of_ray_need_a_number_and_a_script(arguments, tmp_path):
    (tmp_path / "ray.py").write_text("def remote(**options):\n    return lambda actor: actor\n")
    ended = run([sys.executable, EXAMPLES / "ray_actors.py", *arguments], PYTHONPATH=f"{tmp_path}:{ROOT / 'python'}")
    assert ended.code == CONFIGURATION_ERROR and "RANKS SCRIPT" in ended.output, ended.output


# As if it had two CPUs: further actors are never started, and who waits for them waits for ever.
RAY = """
from types import SimpleNamespace as Made

def remote(**options):
    run = lambda rank: Made(remote=lambda script, arguments: rank)
    return lambda actor: Made(remote=lambda rank, world: Made(run=run(rank)))

def init(**options):
    pass

def wait(ranks, timeout):
    started = [rank for rank in ranks if rank < 2][:1]
    assert started or timeout, "it waits for ever"
    return started, [rank for rank in ranks if rank not in started]

def get(rank):
    assert rank < 2, "it waits for ever"
    return 75

def kill(actor):
    pass
"""


def test_ranks_for_which_ray_has_no_cpu_are_not_waited_for_when_others_failed(tmp_path):
    (tmp_path / "ray.py").write_text(RAY)
    ended = run([sys.executable, EXAMPLES / "ray_actors.py", "4", __file__], PYTHONPATH=f"{tmp_path}:{ROOT / 'python'}")
    assert ended.code == 75 and "2 of 4 have not ended" in ended.output, ended.output


# Rank 1 ends first, with its session open, or Ray loses its actor; rank 0 waits for it, and hears when it is gone.
LOSING = """
import os
from types import SimpleNamespace as Made
exceptions = Made(RayActorError=KeyError)
killed = []

def remote(**options):
    return lambda actor: Made(remote=lambda rank, world: Made(rank=rank, run=Made(remote=lambda *_: rank)))

def init(**options):
    pass

def wait(ranks, timeout):
    first = 0 if killed or 1 not in ranks else 1
    assert first == 1 or killed, "it waits for rank 1"
    return [first], [rank for rank in ranks if rank != first]

def get(rank):
    if rank == 1 and os.environ["CODE"] == "lost":
        raise exceptions.RayActorError("the actor is lost")
    return int(os.environ["CODE"]) if rank == 1 else 75

def kill(actor):
    killed.append(actor.rank)
"""


@pytest.mark.parametrize(("how", "code"), [("3", 3), ("78", 78), ("1", 1), ("lost", 75)])
def test_an_actor_of_ray_that_failed_is_ended_and_its_code_counts(how, code, tmp_path):
    (tmp_path / "ray.py").write_text(LOSING)
    ended = run([sys.executable, EXAMPLES / "ray_actors.py", "2", __file__], CODE=how,
                PYTHONPATH=f"{tmp_path}:{ROOT / 'python'}")
    assert ended.code == code and "it waits" not in ended.output, ended.output


def test_an_actor_of_ray_tells_the_other_ranks_what_its_script_raised(tmp_path):
    (tmp_path / "ray.py").write_text("def remote(**options):\n    return lambda actor: actor\n")
    (tmp_path / "raises.py").write_text("import ringwood\nsession = ringwood.Session()\nint('no number')\n")
    (tmp_path / "actor.py").write_text("import os, sys, ray_actors\nrank = ray_actors.Rank(0, 1)\n"
                                       "print('code', rank.run(sys.argv[1], []), flush=True)\nos._exit(0)\n")
    ended = run([PROGRAM, "server", "--", sys.executable, tmp_path / "actor.py", tmp_path / "raises.py"],
                PYTHONPATH=f"{tmp_path}:{EXAMPLES}:{ROOT / 'python'}")
    assert "code 1\n" in ended.output and "of epoch 1: ValueError: invalid literal" in ended.output, ended.output
