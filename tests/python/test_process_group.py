"""torch.distributed's backend "ringwood"."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys

import pytest
import torch

from conftest import JOBS, ROOT, environment, python, run_job


def free_port():
    """Below those that the kernel gives to whoever asks for any, as other tests do meanwhile."""
    while True:
        port = random.randrange(11_000, 20_000)
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


def together(script, *arguments, ranks, codes=(0,), timeout=600, **changes):
    """Plain env:// processes of one machine, without a launcher; their outputs."""
    port = free_port()
    started = []
    for rank in range(ranks):
        mine = environment(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                           **changes)
        started.append(subprocess.Popen([*map(str, python(JOBS / script)), *arguments], cwd=ROOT, env=mine,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True))
    outputs = []
    try:
        for process in started:
            outputs.append(process.communicate(timeout=timeout)[0])
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    for rank, process in enumerate(started):
        assert process.returncode in codes, f"rank {rank} ended with {process.returncode}:\n{outputs[rank]}"
    return outputs


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_collective_gives_what_gloo_gives(ranks):
    ended = run_job("distributed/collectives.py", ranks=ranks)
    assert ended.output.count("all as it should be") == ranks, ended.output


def test_without_a_launcher_rank_0_starts_a_server():
    outputs = together("distributed/collectives.py", ranks=3)
    assert all("all as it should be" in output for output in outputs), outputs


def test_groups_are_destroyed_and_made_again_at_once():
    ended = run_job("distributed/again.py", ranks=3)
    assert ended.output.count("all as it should be") == 3, ended.output
    outputs = together("distributed/again.py", ranks=2)
    assert all("all as it should be" in output and "recvValue" not in output for output in outputs), outputs


@pytest.mark.parametrize("ranks", [2, 4])
def test_ddp_fsdp_dtensor_and_checkpoints_are_those_of_gloo(ranks, tmp_path):
    """Of two ranks to the bit: a sum of two has one order."""
    for backend in ("gloo", "ringwood"):
        run_job("distributed/training.py", backend, tmp_path / backend, ranks=ranks)
    gloo, ours = (torch.load(tmp_path / backend) for backend in ("gloo", "ringwood"))
    assert len(gloo) == len(ours) > 10
    for one, two in zip(ours, gloo):
        torch.testing.assert_close(one, two, rtol=0 if ranks == 2 else 1e-4, atol=0 if ranks == 2 else 1e-6)


def test_ddp_joins_ranks_that_have_fewer_batches():
    """In backward PyTorch's reducer waits for the work of a call whose Python object nobody keeps."""
    ended = run_job("distributed/uneven.py")
    assert ended.output.count("the same as Gloo") == 2, ended.output


def test_an_error_that_nobody_catches_is_printed():
    ended = run_job("distributed/uncaught.py", ranks=2, code=75)
    assert "UnavailableError: rank 0: all-reduce" in ended.output, ended.output


@pytest.mark.parametrize("how, culprit", [("collective", 1), ("backward", 2), ("future", 1), ("collective", 0),
                                          ("late", 2)])
def test_a_rank_that_dies_or_is_late_is_named_by_all_others(how, culprit):
    outputs = together("distributed/failure.py", how, str(culprit), ranks=3, codes=(0, -signal.SIGKILL))
    for rank, output in enumerate(outputs):
        assert rank == culprit or f"rank {rank} heard: " in output, output


@pytest.mark.parametrize("call", ["all_gather", "gather", "all_to_all_single", "broadcast", "send",
                                  "tag", "all_reduce", "average", "average_int", "reduce", "reduce_scatter", "session", "root"])
def test_types_and_operations_that_differ_are_named_by_all(call):
    outputs = together("distributed/differing.py", call, ranks=2)
    assert all("heard of it" in output for output in outputs), outputs


def test_rank_0s_server_ends_where_the_store_is_gone():
    """The store may have gone with its process before the groups end."""
    sys.path.insert(0, str(ROOT / "python"))
    from ringwood.entry.rendezvous import Joined

    class Gone:
        def add(self, key, amount):
            raise RuntimeError("connection reset")

    class Server:
        closed = []

        def close(self, linger=False):
            self.closed.append(linger)

    joined = object.__new__(Joined)
    joined._rank, joined._others, joined._store, joined._servers = 0, 1, Gone(), [Server()]
    joined._ours, joined.groups = False, 1
    joined.leave()
    joined._close(True)
    assert Server.closed == [True], "once; the other rank may be in a call"


def test_parts_of_any_type_and_layout_are_handed_out():
    """Bytes that begin between two elements of a part's type, none at all, and a part whose memory is in another order."""
    sys.path.insert(0, str(ROOT / "python"))
    from ringwood.group.tensors import hand_out, size_of, together

    given = [torch.tensor([1, 2, 3], dtype=torch.uint8), torch.tensor([1.5, -2.5], dtype=torch.float64),
             torch.empty(0, 2), torch.arange(6, dtype=torch.bfloat16).reshape(2, 3), torch.tensor([1 + 2j])]
    taken = [torch.zeros(3, 2, dtype=torch.bfloat16).t() if part.dtype == torch.bfloat16 else torch.zeros_like(part)
             for part in given]
    gathered = together(given)
    hand_out(gathered, [size_of(part) for part in given], taken)
    gathered.zero_()  # what was handed out is the parts' own
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(taken, given)), taken
    alone = torch.ones(3)
    assert together([alone]).data_ptr() == alone.data_ptr() and together([alone.expand(2, 3)]).numel() == 24
    assert together([]).numel() == 0


def test_what_a_work_keeps_has_names_that_torch_leaves_free():
    """PyTorch 2.14 has a property `timeout`, which is not written to, where 2.13 has nothing."""
    sys.path.insert(0, str(ROOT / "python"))
    from ringwood.group.work import Work

    kept = vars(Work(watcher=None, pending=[], outputs=[], timeout=1.0))
    assert kept and not [name for name in kept if not name.startswith("_") and name not in vars(Work)], kept


def test_a_torch_that_is_too_old_is_refused(monkeypatch):
    sys.path.insert(0, str(ROOT / "python"))
    from ringwood import RefusedError, process_group

    monkeypatch.setattr(torch, "__version__", type(torch.__version__)("2.6.0+cu124"))
    with pytest.raises(RefusedError, match=r"needs PyTorch 2\.7, this is 2\.6\.0\+cu124"):
        process_group.create(None, None)
