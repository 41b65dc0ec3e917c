"""libringwood.so as a neighbour: what it shows, and whom it can live beside."""

import re
import subprocess
import sys

import pytest

from conftest import JOBS, LIBRARY, PROGRAM, ROOT, run, run_job


def test_only_c_symbols_are_exported():
    listing = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True,
                             text=True).stdout
    names = {line.split()[-1].split("@")[0] for line in listing.splitlines()}
    foreign = {name for name in names if not name.startswith("ringwood_")}
    assert not foreign, sorted(foreign)[:20]
    header = "".join(path.read_text() for path in (ROOT / "include").glob("*.h"))
    assert {"ringwood_open", "ringwood_ready", "ringwood_finish_step", "ringwood_last_error"} <= names
    assert all(name in header for name in names)


def test_the_cpp_header_has_every_call_of_the_handles_that_it_keeps():
    headers = "".join(path.read_text() for path in (ROOT / "include").glob("*.h"))
    calls = re.findall(r"(ringwood_\w+)\((?:const )?ringwood_(?:session|communicator|work|sampler|pulled)\*", headers)
    cpp = (ROOT / "include" / "ringwood.hpp").read_text()
    assert len(calls) > 40 and not [call for call in calls if f"{call}(" not in cpp]


@pytest.mark.parametrize("order", [("torch", "ringwood"), ("ringwood", "torch")])
def test_it_works_beside_torch_in_both_import_orders(order):
    run_job("load_order.py", *order)


def test_the_package_has_the_projects_version():
    project = re.search(r"project\(ringwood VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    ended = run([sys.executable, "-c", "import ringwood; print(ringwood.__version__)"])
    assert (ended.code, ended.output.strip()) == (0, project)


def test_a_missing_library_is_named_with_its_remedy():
    ended = run([sys.executable, "-c", "import os\nos.environ['RINGWOOD_LIBRARY'] = '/nowhere/lib.so'\n"
                 "import ringwood\nringwood.Session()"])
    assert ended.code == 78, ended.output
    assert "/nowhere/lib.so" in ended.output and "./dev build" in ended.output


@pytest.mark.parametrize("variables", [{"WORLD_SIZE": "2"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"PMI_RANK": "1"}],
                         ids=lambda variables: "+".join(variables))
def test_a_rank_without_a_server_hears_what_is_missing(variables):
    ended = run([sys.executable, JOBS / "dense.py"], **variables)
    missing = "RINGWOOD_COORDINATOR" if "RANK" in variables else "RANK"
    assert ended.code == 78 and f"{missing} is not set" in ended.output and "ringwood run" in ended.output, ended.output


def test_the_reference_has_every_variable_that_the_package_reads():
    read = {name for path in (ROOT / "python" / "ringwood").rglob("*.py")
            for name in re.findall(r'"((?:RINGWOOD_|SLURM_|OMPI_|LOCAL_|MASTER_)\w+)"', path.read_text())}
    page = (ROOT / "docs" / "reference.md").read_text()
    assert "RINGWOOD_LIBRARY" in read and not [name for name in read if f"`{name}`" not in page]


def test_a_session_has_the_options_of_the_loaded_library():
    """Values, a keyword that there is not, and the environment where nothing is given."""
    ended = run([sys.executable, "-c", """
import os
import ringwood

def refused(kind, words, **options):
    try:
        ringwood.Session("127.0.0.1:1", 0, 1, **options)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(options)

refused(ringwood.InvalidError, "sparse_keep = -1", sparse_keep=-1)
refused(ringwood.InvalidError, "join_timeout_seconds = -2", join_timeout=-2)
refused(ringwood.InvalidError, "--adapt and --freeze-plan", adapt=True, freeze_plan="plan")
refused(TypeError, 'no option "sparse_kep"; there are', sparse_kep=2)
refused(TypeError, "", sparse_chunk=1.5)
os.environ.update(RANK="0", WORLD_SIZE="1", RINGWOOD_COORDINATOR="127.0.0.1:1", RINGWOOD_SPARSE_KEEP="0.5")
library = ringwood.library.load()
options = library.options({"momentum_masking": False, "resume": "auto", "wire": None})
try:
    __import__("ringwood.torch").torch.init(sparse_kep=2)
except TypeError as error:
    assert "sparse_kep" in str(error), error
else:
    raise AssertionError("init takes what no session has")
assert (options.sparse_keep, options.momentum_masking, options.resume, options.wire) == (0.5, -1, 2, b"native")
"""])
    assert ended.code == 0, ended.output


def test_the_longest_host_name_is_refused_with_the_remedy():
    """UCX 1.13 ends a process there, before main and inside of dlopen."""
    import_it = f"exec {sys.executable} -c 'import ringwood.library as library; library.load()'"
    for command, name, code in ((f"exec {PROGRAM} --version", 64, 78), (import_it, 64, 1), (import_it, 63, 0)):
        ended = subprocess.run(["unshare", "-u", "sh", "-c", f"hostname {name * 'h'} && {command}"],
                               capture_output=True, text=True, timeout=60)
        if "Operation not permitted" in ended.stderr:
            pytest.skip("a host name of one's own needs root")
        assert ended.returncode == code, ended.stderr
        assert ("hostnamectl set-hostname" in ended.stderr) == (name > 63), ended.stderr
