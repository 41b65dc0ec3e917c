"""libringwood.so as a neighbour: what it shows, and whom it can live beside."""

import subprocess
import sys

import pytest

from conftest import JOBS, LIBRARY, ROOT, run, run_job


def test_only_c_symbols_are_exported():
    listing = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True,
                             text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    foreign = {name for name in names if not name.startswith("ringwood_")}
    assert not foreign, sorted(foreign)[:20]
    header = (ROOT / "client" / "include" / "ringwood.h").read_text()
    assert {"ringwood_open", "ringwood_ready", "ringwood_finish_step", "ringwood_last_error"} <= names
    assert all(name in header for name in names)


@pytest.mark.parametrize("order", [("torch", "ringwood"), ("ringwood", "torch")])
def test_it_works_beside_torch_in_both_import_orders(order):
    run_job("load_order.py", *order)


def test_a_missing_library_is_named_with_its_remedy():
    ended = run([sys.executable, "-c", "import os\nos.environ['RINGWOOD_LIBRARY'] = '/nowhere/lib.so'\n"
                 "import ringwood\nringwood.Session()"])
    assert ended.code == 78, ended.output
    assert "/nowhere/lib.so" in ended.output and "./dev build" in ended.output


def test_a_program_outside_a_job_hears_what_is_missing():
    ended = run([sys.executable, JOBS / "dense.py"])
    assert ended.code == 78 and "RANK" in ended.output and "ringwood run" in ended.output, ended.output
