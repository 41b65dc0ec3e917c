"""Jobs whose server nobody started: a program by itself, and torch's launchers."""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from conftest import JOBS, PROGRAM, ROOT, environment, run, run_job
from test_process_group import together

ALONE = "nothing started this process as a rank of a job, so it trains alone"


def left_in(folder):
    """What servers that had `folder` for their temporary files have left: processes, stores, files of tokens."""
    listed = subprocess.run(["ps", "-eo", "args"], stdout=subprocess.PIPE, text=True, check=True).stdout
    processes = [line for line in listed.splitlines() if str(folder) in line and " server " in line]
    return processes + [name for name in os.listdir(folder) if name.startswith(("ringwood-", "tmp"))]


def wait_until_nothing_is_left(folder):
    deadline = time.monotonic() + 60
    while left_in(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left_in(folder)


@pytest.mark.parametrize("script", ["dense.py", "sparse.py", "entered.py"])
def test_a_program_by_itself_is_the_only_rank(script, tmp_path):
    ended = run([sys.executable, JOBS / script], TMPDIR=str(tmp_path))
    assert ended.code == 0 and ALONE in ended.output and "ringwood run -np 4" in ended.output, ended.output
    wait_until_nothing_is_left(tmp_path)


@pytest.mark.parametrize("empty", ["RANK", "RINGWOOD_COORDINATOR", "SLURM_PROCID"])
def test_an_empty_variable_makes_no_rank(empty, tmp_path):
    ended = run([sys.executable, JOBS / "dense.py"], TMPDIR=str(tmp_path), **{empty: ""})
    assert ended.code == 0 and ALONE in ended.output, ended.output
    wait_until_nothing_is_left(tmp_path)


def test_an_empty_variable_names_no_local_rank(monkeypatch):
    from ringwood import job
    monkeypatch.setenv("LOCAL_RANK", "")
    monkeypatch.setenv("SLURM_LOCALID", "1")
    assert job.local_rank() == 1


def test_an_empty_address_is_no_server_of_torchs_ranks(tmp_path):
    outputs = together("entered.py", ranks=2, TMPDIR=str(tmp_path), RINGWOOD_COORDINATOR="", LOCAL_RANK="")
    assert all(f"rank {rank} of 2 entered twice" in output for rank, output in enumerate(outputs)), outputs


TYPED = """
import torch, ringwood.torch as rw
rw.init()
model = torch.nn.Linear(4, 2)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
optimizer.step()
a name that is misspelt
misspelt
model(torch.ones(1, 4)).sum().backward()
optimizer.step()
print("committed", optimizer.last.step, "closed", rw.session().closed)
"""


@pytest.mark.parametrize("prompt", [("-i",), ("-c", "import code; code.interact()")], ids=["python", "code.interact"])
def test_an_error_at_a_prompt_ends_neither_prompt_nor_session(prompt):
    ended = subprocess.run([sys.executable, *prompt], input=TYPED, env=environment(), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=600)
    for words in ("RefusedError: step() without backward()", "SyntaxError", "NameError", "committed 1 closed False"):
        assert words in ended.stdout, ended.stdout
    assert ended.returncode == 0 and "failed at step" not in ended.stdout, ended.stdout


SAVES = """
import torch, ringwood.torch as rw
rw.init()
model = torch.nn.Linear(4, 2)
rw.broadcast_parameters(model.state_dict())
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
checkpoint = rw.Checkpoint(model, optimizer, every=1)
print("begins at step", checkpoint.restore())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    checkpoint.step()
rw.session().checkpoint_wait()
"""


def test_a_store_of_its_own_stays(tmp_path):
    variables = {"RINGWOOD_STORE": str(tmp_path / "store"), "RINGWOOD_RESUME": "auto", "TMPDIR": str(tmp_path)}
    for step in (0, 3, 6):
        ended = run([sys.executable, "-c", SAVES], **variables)
        assert ended.code == 0 and f"begins at step {step}\n" in ended.output, ended.output
    wait_until_nothing_is_left(tmp_path)
    assert (tmp_path / "store").is_dir()


def test_nothing_is_left_of_one_that_is_killed(tmp_path):
    kill = "import os, signal, ringwood.torch as rw; rw.init(); rw.allreduce(1); os.kill(os.getpid(), signal.SIGKILL)"
    ended = run([sys.executable, "-c", kill], TMPDIR=str(tmp_path))
    assert ended.code == -signal.SIGKILL and ALONE in ended.output, ended.output
    wait_until_nothing_is_left(tmp_path)


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_a_server_that_is_gone_or_hangs_does_not_hold_up_the_end(how, tmp_path):
    script = ("import os, signal, ringwood, ringwood.torch as rw; from ringwood import job; rw.init(); rw.allreduce(1)\n"
              f"os.killpg(job.current()._entry._servers[0]._process.pid, signal.{how})\n"
              "try:\n    rw.shutdown()\nexcept ringwood.UnavailableError as error:\n    print('heard:', error)\n"
              "print('over')")
    ended = run([sys.executable, "-c", script], TMPDIR=str(tmp_path))
    assert ended.code == 0 and "over" in ended.output and "BrokenPipe" not in ended.output, ended.output
    wait_until_nothing_is_left(tmp_path)


def test_a_wrong_timeout_is_refused_by_name():
    outputs = together("entered.py", ranks=2, codes=(78,), RINGWOOD_JOIN_TIMEOUT="soon")
    assert all("RINGWOOD_JOIN_TIMEOUT" in output and "ValueError" not in output for output in outputs), outputs


def test_an_exception_is_the_programs_own(tmp_path):
    ended = run([sys.executable, "-c", "import ringwood.torch as rw; rw.init(); rw.allreduce(1); raise ValueError('oh')"],
                TMPDIR=str(tmp_path))
    assert ended.code == 1 and "ValueError: oh" in ended.output, ended.output
    wait_until_nothing_is_left(tmp_path)


def test_ranks_that_torchs_variables_name_find_each_other(tmp_path):
    outputs = together("entered.py", "gloo", ranks=3, TMPDIR=str(tmp_path))
    assert all(f"rank {rank} of 3 entered twice" in output for rank, output in enumerate(outputs)), outputs
    wait_until_nothing_is_left(tmp_path)


@pytest.mark.parametrize("start", [lambda: together("numbered.py", ranks=2),
                                   lambda: [run_job("numbered.py").output] * 2,
                                   lambda: [run_job("numbered.py", "named").output] * 2], ids=["torch", "server", "named"])
def test_arguments_number_ranks_as_variables_do(start):
    assert all(f"rank {rank} of 2 came twice" in output for rank, output in enumerate(start()))


OF_TWO_HOSTS = """
import os, runpy, sys
rank = int(os.environ["RANK"])
os.environ |= {"LOCAL_RANK": str(rank % 2), "GROUP_WORLD_SIZE": "2", "RINGWOOD_HOST": f"h{rank // 2}"}
import ringwood.torch as rw
from ringwood import job
rw.init()
started = [b"--of-rank" in open(f"/proc/{server._process.pid}/cmdline", "rb").read()
           for server in job.current()._entry._servers]
print(f"rank {rank} has started {started}", flush=True)
rw.shutdown()
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("changes", [{}, {"RINGWOOD_NETWORK_INTERFACE": "lo"}], ids=["", "interface"])
def test_the_first_rank_of_each_of_torchruns_hosts_starts_a_reducer(changes, tmp_path):
    script = tmp_path / "of_two_hosts.py"
    script.write_text(OF_TWO_HOSTS)
    outputs = together(script, JOBS / "entered.py", ranks=4, TMPDIR=str(tmp_path), **changes)
    for rank, (output, started) in enumerate(zip(outputs, ("[False, True]", "[]", "[True]", "[]"))):
        assert f"rank {rank} has started {started}" in output and f"rank {rank} of 4 entered twice" in output, output
    wait_until_nothing_is_left(tmp_path)


# h0 has two ranks and the server, h1 two ranks, h2 one.
OF_THREE_HOSTS = """
for rank in 0 1 2 3 4; do
    RANK=$rank WORLD_SIZE=5 OMPI_COMM_WORLD_LOCAL_RANK=$((rank % 2)) RINGWOOD_HOST=h$((rank / 2)) "$@" &
done
wait
"""

ENTERS_TWICE = """
import os
import numpy as np
import ringwood
from ringwood.entry import host_reducer
for _ in range(2):
    with ringwood.Session() as session:
        gradient = np.full(200_000, 1 + session.rank, np.float32)
        session.register("w", gradient, route="sparse", density=1.0)
        session.begin_step()
        session.ready("w")
        session.finish_step()
        assert (gradient == 3).all()
# One write, as all ranks have one output.
os.write(1, f"rank {os.environ['RANK']} has started {len(host_reducer._of_served_jobs)}\\n".encode())
"""


@pytest.mark.parametrize("servers", [(), ("--servers", "1")], ids=["", "servers are counted"])
def test_the_first_rank_of_each_host_without_a_server_starts_a_reducer(servers, tmp_path):
    """And keeps it for the next job."""
    script = tmp_path / "enters_twice.py"
    script.write_text(ENTERS_TWICE)
    ended = run([PROGRAM, "server", "--network-interface", "lo", "--trusted-fabric", "--host", "h0", *servers, "--", "sh",
                 "-c", OF_THREE_HOSTS, "sh", sys.executable, script], TMPDIR=str(tmp_path))
    started = sorted(line for line in ended.output.splitlines() if "has started" in line)
    assert started == [f"rank {rank} has started {0 if servers else int(rank in (2, 4))}" for rank in range(5)], ended.output
    assert ended.output.count(f"begins at step 0: 5 workers, {'1 server' if servers else '3 servers'}") == 2, ended.output
    wait_until_nothing_is_left(tmp_path)


ASKED_TO_END = """
import os
import signal
import numpy as np
import ringwood
from ringwood.entry import host_reducer
with ringwood.Session() as session:
    gradient = np.ones(1000, np.float32)
    session.register("w", gradient, route="sparse", density=0.1)
    for step in range(4):
        session.begin_step()
        session.ready("w")
        session.finish_step()
        if step == 1:
            for reducer in host_reducer._of_served_jobs.values():
                os.killpg(reducer._process.pid, signal.SIGTERM)
                print("asked to end", flush=True)
"""


def test_a_reducer_that_is_asked_to_end_serves_until_the_ranks_have_left(tmp_path):
    """As Slurm asks all processes of a task, of which the ranks then make a last checkpoint."""
    script = tmp_path / "asked_to_end.py"
    script.write_text(ASKED_TO_END)
    ended = run([PROGRAM, "server", "--network-interface", "lo", "--trusted-fabric", "--host", "h0", "--", "sh", "-c",
                 OF_THREE_HOSTS, "sh", sys.executable, script], TMPDIR=str(tmp_path))
    assert ended.output.count("asked to end") == 2 and "left cleanly after step 4" in ended.output, ended.output
    wait_until_nothing_is_left(tmp_path)


LEAVES_LATE = """
import os, sys, time
rank = int(os.environ["RANK"])
os.environ |= {"LOCAL_RANK": str(rank % 2), "GROUP_WORLD_SIZE": "2", "RINGWOOD_HOST": f"h{rank // 2}"}
import ringwood.torch as rw
rw.init()
assert rw.allreduce(1, op="sum") == 4
if rank == 1:
    time.sleep(5)
    if "dies" in sys.argv:
        os._exit(3)
rw.shutdown()
print(f"rank {rank} has left", flush=True)
"""


@pytest.mark.parametrize("end", ["leaves", "dies"])
def test_the_servers_of_ranks_that_leave_early_stay_for_one_that_ends_late(end, tmp_path):
    """Rank 0 starts the coordinator, ranks 0 and 2 reducers; their processes are long gone when rank 1 ends."""
    script = tmp_path / "leaves_late.py"
    script.write_text(LEAVES_LATE)
    outputs = together(script, end, ranks=4, codes=(0, 3), TMPDIR=str(tmp_path))
    assert sum("has left" in output for output in outputs) == (4 if end == "leaves" else 3), outputs
    assert ("rank 1 (host h0) failed" if end == "dies" else "") in outputs[0], outputs
    for output in outputs:
        assert ("the server is stopping" not in output and "cannot" not in output), outputs
    wait_until_nothing_is_left(tmp_path)


def test_torchrun_needs_no_server_and_may_restart(tmp_path):
    script = tmp_path / "fails_once.py"
    script.write_text("import os, sys, runpy\n"
                      "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n    sys.argv.append('early')\n"
                      f"sys.path.insert(0, {str(JOBS)!r})\nrunpy.run_path({str(JOBS / 'entered.py')!r}, run_name='__main__')\n")
    ended = run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--rdzv-backend", "c10d",
                 "--rdzv-endpoint", "127.0.0.1:0", "--max-restarts", 1, script], TMPDIR=str(tmp_path))
    assert ended.code == 0 and ended.output.count("of 2 entered twice") == 2, ended.output
    assert "rank 1 (host" in ended.output and "has had enough" in ended.output, ended.output
    wait_until_nothing_is_left(tmp_path)


def test_a_network_that_others_reach_is_not_taken_in_silence():
    outputs = together("entered.py", ranks=2, codes=(78, 75), RINGWOOD_NETWORK_INTERFACE="eth0")
    assert all("RINGWOOD_TRUSTED_FABRIC=1" in output and "ringwood run" in output for output in outputs), outputs


def test_a_server_that_does_not_start_is_told_to_all(tmp_path):
    (tmp_path / "file").touch()
    outputs = together("entered.py", ranks=2, codes=(75,), RINGWOOD_STORE=str(tmp_path / "file"),
                       RINGWOOD_JOIN_TIMEOUT="170")
    assert "--join-timeout 170" in outputs[0], "it waits for ranks as long as they are told to wait"
    assert "is not a folder" in outputs[0] and "is in the output of rank 0" in outputs[1], outputs
    assert "rank 0 could not start a server" in outputs[1], outputs


def test_rank_0_without_a_server_stays_until_all_have_heard_why(monkeypatch):
    """The store may be its own, and end with it."""
    sys.path.insert(0, str(ROOT / "python"))
    dist = pytest.importorskip("torch.distributed")
    from ringwood.entry import entry
    from ringwood.errors import UnavailableError

    def none(_keeps):
        raise OSError("no memory")

    monkeypatch.setattr(entry, "OwnServer", none)
    monkeypatch.setattr(entry, "_HEARING_SECONDS", 120)
    store = dist.HashStore()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(entry.meet, store, "meeting", 0, 3)
        for rank in (1, 2):
            assert not wait([first], 0.1).done, "there is no store without rank 0"
            with pytest.raises(UnavailableError, match="rank 0 could not start a server: no memory"):
                entry.meet(store, "meeting", rank, 3)
        with pytest.raises(OSError, match="no memory"):
            first.result()


def test_a_named_interface_may_be_loopback():
    outputs = together("entered.py", ranks=2, RINGWOOD_NETWORK_INTERFACE="lo")
    assert all("of 2 entered twice" in output for output in outputs), outputs


def test_without_the_program_the_remedy_is_named(tmp_path):
    shutil.copytree(ROOT / "python", tmp_path / "python")
    library = tmp_path / "lib" / "libringwood.so"
    library.parent.mkdir()
    library.symlink_to(environment()["RINGWOOD_LIBRARY"])
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ended = run([sys.executable, JOBS / "dense.py"], RINGWOOD_LIBRARY=str(library), PYTHONPATH=str(tmp_path / "python"),
                TMPDIR=str(temporary))
    assert ended.code == 78 and "RINGWOOD_COORDINATOR names no server" in ended.output, ended.output
    assert f"{tmp_path}/bin/ringwood" in ended.output and "./dev build" in ended.output, ended.output
    assert not left_in(temporary)


LIVES = """
import os, torch, ringwood.torch as rw
model = torch.nn.Linear(4, 2)

def train():
    optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()

try:
    rw.init(wyre="bf16")
except TypeError as error:
    print(error)
rw.init()
with rw.session():
    train()
rw.init()                                     # the session before was closed, and not by rw.shutdown()
train()
print("step", rw.session().step, sum(name.startswith("ringwood-") for name in os.listdir(os.environ["TMPDIR"])), "stores")
rw.shutdown()
model(torch.ones(1, 4)).sum().backward()
"""


def test_a_job_that_is_over_or_never_was_leaves_neither_hooks_nor_servers(tmp_path):
    ended = run([sys.executable, "-c", LIVES], TMPDIR=str(tmp_path))
    assert ended.code == 0 and 'no option "wyre"' in ended.output, ended.output
    assert "step 1 1 stores\n" in ended.output, ended.output  # each server has one
    wait_until_nothing_is_left(tmp_path)
