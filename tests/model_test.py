"""The commit and recovery protocol, checked as a model with spin: tests/model/commit.pml.

Every reachable state up to the bound is searched; every deliberate mistake must be found, and what must
be able to happen is shown to happen. ./dev long (RINGWOOD_CHAOS=1) searches a larger bound: two
workers die, two restarts of the coordinator.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

MODEL = pathlib.Path(__file__).resolve().parent / "model" / "commit.pml"
SEARCH_SECONDS = 600  # on a loaded machine; alone 5 to 8
MISTAKES = re.findall(r"^#define (\w+) +(\d+)", MODEL.read_text().split("#endif")[-1].split("#define USUAL")[0], re.M)
GOALS = {
    1: "the second process of a slot commits a round in which somebody had weight 0",
    2: "a newcomer receives the state after it has counted a round",
    3: "a round is rolled forward by the answer to a join",
    4: "all members re-attach to a coordinator that was started again",
    5: "an epoch that began nowhere is followed by one with its base",
}

pytestmark = pytest.mark.skipif(not (shutil.which("spin") and shutil.which("gcc")),
                                reason="the model checker is not installed: apt-get install spin gcc")


def search(folder, optimise="-O0", collapse=False, **definitions):
    """What spin's search prints."""
    flags = [f"-D{name}={value}" for name, value in definitions.items()]
    shutil.copy(MODEL, folder)  # spin writes beside the file
    subprocess.run(["spin", "-a", *flags, MODEL.name], cwd=folder, check=True, capture_output=True)
    # One process: there is no order to reduce. States are stored whole where they fit, which is faster.
    subprocess.run(["gcc", optimise, "-w", "-DSAFETY", "-DNOREDUCE", "-DNOFAIR", "-DMEMLIM=12000",
                    "-DCOLLAPSE" if collapse else "-DNOCOMP", "-o", "pan", "pan.c"], cwd=folder, check=True)
    # -E: the end of the last epoch is no deadlock.
    return subprocess.run(["./pan", "-E", "-m10000", "-w24" if optimise == "-O2" else "-w18"], cwd=folder,
                          check=True, text=True, capture_output=True, timeout=SEARCH_SECONDS).stdout


def errors(output):
    return int(re.search(r"errors: (\d+)", output)[1])


def trace(folder, **definitions):
    flags = [f"-D{name}={value}" for name, value in definitions.items()]
    return subprocess.run(["spin", "-t", *flags, MODEL.name], cwd=folder, text=True, capture_output=True).stdout


def expect_no_violation(folder, optimise="-O2", **options):
    output = search(folder, optimise, **options)
    options.pop("collapse", None)
    assert errors(output) == 0, trace(folder, **options)
    assert "Search not completed" not in output and "max search depth too small" not in output, output
    states = re.search(r"(\d[\d.e+]*) states, stored", output)[1]
    print(f"{states} states in {re.search(r'elapsed time ([0-9.]+)', output)[1]} s")
    return float(states)


def test_no_order_of_failures_lets_two_workers_apply_different_updates(tmp_path):
    assert expect_no_violation(tmp_path) > 1e6  # a search that ends at once proves nothing


@pytest.mark.skipif("RINGWOOD_CHAOS" not in os.environ, reason="minutes and gigabytes: RINGWOOD_CHAOS=1")
def test_nor_do_more_crashes(tmp_path):
    expect_no_violation(tmp_path, collapse=True, CRASHES=2, RESTARTS=2)


@pytest.mark.parametrize("name, number", MISTAKES)
def test_every_deliberate_mistake_is_found(tmp_path, name, number):
    assert errors(search(tmp_path, MUT=number)) == 1, f"{name} goes unnoticed"


@pytest.mark.parametrize("goal", GOALS)
def test_what_must_be_able_to_happen_is_reached(tmp_path, goal):
    assert errors(search(tmp_path, GOAL=goal, EPOCHS=3 if goal == 5 else 2)) == 1, f"never: {GOALS[goal]}"
