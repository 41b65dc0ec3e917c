"""CUDA gradients: what is decided without a device, and on a device that training in place, staged and in one
process on the CPU is the same. Several ranks share the device."""

import contextlib
import json
import sys
import types

import numpy as np
import pytest
import torch

from conftest import EXAMPLE, ROOT, run_job

sys.path.insert(0, str(ROOT / "python"))
from ringwood.device import Arrivals  # noqa: E402
from ringwood.errors import RefusedError  # noqa: E402
from ringwood.placement import exchange_stream, host_only, why_staged  # noqa: E402
from ringwood.slot import InPlace  # noqa: E402
from ringwood.stream import ExchangeStream, NoStream  # noqa: E402

on_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="no device")
# NCCL as between hosts, over loopback; in_turn.py makes each rank a host.
SHARED = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "lo",
          "NCCL_MNNVL_ENABLE": "0", "NCCL_CUMEM_ENABLE": "0", "NCCL_MAX_NCHANNELS": "1",
          "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "GLOO_SOCKET_IFNAME": "lo"}
IN_PLACE, STAGED = "exchanged where they are", "staged through host memory: "


RESTART = 75


def job(script, *arguments, ranks=2, **changes):
    return jobs((script, *arguments), ranks=ranks, **changes)


def jobs(*scripts, ranks=2, **changes):
    """One after the other, in the same processes."""
    return run_job("in_turn.py", *(":".join(map(str, words)) for words in scripts), ranks=ranks, **SHARED, **changes)


WAYS = [("dense", "fp32"), ("dense", "int8"), ("dense", "int4"), ("sparse", "fp32")]


def same_bits(folder, ranks, *devices):
    """Of each of `devices` the weights of a training by each route and wire."""
    runs = [[(device, *way, folder / "-".join([str(number), *way])) for way in WAYS]
            for number, device in enumerate(devices)]
    jobs(*(("device/same_bits.py", *words) for run in runs for words in run), ranks=ranks)
    return [{words[1:3]: words[3].read_bytes() for words in run} for run in runs]


# ---- without a device -----------------------------------------------------------------------------

class Session:
    def __init__(self):
        self.heard = []

    def ready(self, identity):
        self.heard.append(identity)


class Slot:
    def __init__(self):
        self.here = False

    def arrived(self):
        return self.here

    def wait(self):
        self.here = True


def test_gradients_are_announced_in_order_when_they_have_arrived():
    session, slots = Session(), [Slot() for _ in range(4)]
    arrivals = Arrivals(session)
    arrivals.add(0, slots[0])
    slots[1].here = True
    arrivals.add(1, slots[1])
    assert session.heard == []  # 1 stands behind 0
    slots[0].here = True
    arrivals.add(2, slots[2])
    assert session.heard == [0, 1]
    arrivals.add(3, slots[3])
    arrivals.wait()
    assert session.heard == [0, 1, 2, 3]
    arrivals.wait()
    assert session.heard == [0, 1, 2, 3]


def test_what_cannot_be_exchanged_in_place_says_why():
    one = {"cuda:0"}
    assert why_staged("auto", one, "", "") == why_staged("in_place", one, "", "") == ""
    assert why_staged("auto", one, "", "no NCCL") == "no NCCL"
    assert "as asked for" in why_staged("stage", one, "", "")
    assert "cuda:0, cuda:1" in why_staged("auto", {"cuda:1", "cuda:0"}, "", "")
    assert "cpu, cuda:0" in why_staged("auto", {"cpu", "cuda:0"}, "", "")
    assert "clip_norm" in why_staged("auto", one, "clip_norm", "")


def test_what_stands_against_the_device_of_the_gradients_is_why_they_are_staged(capsys):
    class Session:
        rank, world, epoch, receiving, logged, selection = 0, 1, 1, False, False, (0, "exact", 0.0)
        lacks = "no kernels for {}"

        def device_support(self, device):
            return self.lacks.format(device)

        def allreduce(self, array, op):
            return array

        def broadcast(self, array, root):
            return array

    on_second = types.SimpleNamespace(device=torch.device("cuda", 1))
    assert isinstance(exchange_stream(Session(), "auto", [on_second], [("dense", 0.01, 0, None)]), NoStream)
    assert STAGED + "no kernels for 1" in capsys.readouterr().err
    Session.logged, Session.lacks = True, ""
    assert isinstance(exchange_stream(Session(), "auto", [on_second], [("dense", 0.01, 0, None)]), NoStream)
    assert STAGED + "the update log" in capsys.readouterr().err
    with pytest.raises(RefusedError, match="--update-log"):
        exchange_stream(Session(), "in_place", [on_second], [("dense", 0.01, 0, None)])


def test_ways_of_selection_that_a_device_has_not_keep_sparse_tensors_in_host_memory():
    exact, dense, sparse = (0, "exact", 0.0), ("dense", 0.01, 0, None), ("auto", 0.01, 0, None)
    assert host_only(exact, [dense, sparse]) == ""
    for selection in ((4096, "exact", 0.0), (0, "threshold", 0.0), (0, "exact", 1.5)):
        assert host_only(selection, [dense]) == ""
        assert host_only(selection, [dense, sparse])
    assert host_only(exact, [("sparse", 0.01, 0, 2.0)]) == "clip_norm"
    assert host_only((0, "exact", 1.5), [("sparse", 0.01, 0, 0)]) == ""  # its own: none


class Cuda:
    """Streams as PyTorch has them, which write down who waits for whom."""

    class Stream:
        def __init__(self, name, log):
            self.name, self.log, self.cuda_stream = name, log, id(self)

        def wait_stream(self, other):
            self.log.append(f"{self.name} waits for {other.name}")

    def __init__(self):
        self.log = []
        self.first, self.other = (Cuda.Stream(name, self.log) for name in ("first", "other"))
        self.current = self.first

    def current_stream(self, device):
        return self.current

    @contextlib.contextmanager
    def stream(self, stream):
        self.current, before = stream, self.current
        yield
        self.current = before

    def record_stream(self, stream):  # of a gradient
        self.log.append(f"{stream.name} keeps the gradient")


def test_the_stream_of_the_session_and_the_callers_wait_for_each_other(monkeypatch):
    cuda = Cuda()
    for name in ("current_stream", "stream"):
        monkeypatch.setattr(torch.cuda, name, getattr(cuda, name))
    monkeypatch.setattr("ringwood.stream._raw_stream", lambda _: cuda.current.cuda_stream)
    stream = ExchangeStream("cuda:0")
    stream.follow(cuda)
    with stream.work(cuda):
        pass
    assert not cuda.log and stream.handle == cuda.first.cuda_stream  # one stream: nobody waits
    with cuda.stream(cuda.other):
        stream.follow(cuda)
        assert cuda.log == ["first waits for other", "first keeps the gradient"]
        cuda.log.clear()
        with stream.work():
            assert cuda.current is cuda.first and cuda.log == ["first waits for other"]
        assert cuda.current is cuda.other and cuda.log[1:] == ["other waits for first"]


def test_memory_made_for_an_average_is_kept_until_the_sessions_stream_is_through_with_it():
    class Stream(NoStream):
        kept = []

        def work(self, gradient=None):
            self.kept.append(gradient)
            return contextlib.nullcontext()

    class Session:
        def rebind(self, name, gradient):
            """It knows no places."""

    slot = InPlace("tensor", torch.nn.Parameter(torch.ones(3)), Stream())
    slot.let_go(Session())
    slot.clear(Session())
    assert slot.buffer is not None and Stream.kept == [slot.buffer] and not slot.buffer.any()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_without_a_device_its_memory_is_refused_with_what_is_missing():
    ended = run_job("no_device.py", ranks=1)
    assert "missing: " in ended.output, ended.output


def test_on_the_cpu_the_script_that_devices_run_says_the_same(tmp_path):
    ended = job("device/training.py", "cpu", "dense", "auto", tmp_path / "weights")
    assert IN_PLACE not in ended.output and STAGED not in ended.output, ended.output


def test_on_the_cpu_a_training_has_its_bits_again_and_every_way_others(tmp_path):
    first, again = same_bits(tmp_path, 2, "cpu", "cpu")
    assert first == again and len(set(first.values())) == len(first)


def test_on_the_cpu_a_rank_that_is_killed_is_named_by_those_that_wait_for_it():
    assert "rank 1" in job("device/killed.py", "cpu", code=RESTART).output


# ---- on a device ----------------------------------------------------------------------------------

@on_device
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_session_exchanges_tensors_and_pointers(ranks):
    job("device/session.py", ranks=ranks)


@on_device
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_training_on_a_device_has_the_bits_of_one_on_the_host(tmp_path, ranks):
    there, here = same_bits(tmp_path, ranks, "cuda", "cpu")
    for way in WAYS:
        assert there[way] == here[way], way


@on_device
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_that_is_killed_is_named_by_those_that_wait_for_it_on_a_device(ranks):
    assert "rank 1" in job("device/killed.py", "cuda", ranks=ranks, code=RESTART).output


@on_device
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("route", ["dense", "sparse"])
def test_training_in_place_staged_and_on_the_cpu_is_the_same(tmp_path, route, ranks):
    choices = ["auto", "stage", "auto,stage"]  # the last: rank 0 could, the others stage
    ended = jobs(*(("device/training.py", "cuda", route, choice, tmp_path / str(number))
                   for number, choice in enumerate(choices)),
                 ("device/training.py", "cpu", route, "auto", tmp_path / "cpu"), ranks=ranks)
    said = [line for line in ended.output.splitlines() if IN_PLACE in line or STAGED in line]
    assert [IN_PLACE in line for line in said] == [True, False, False], ended.output
    assert sum(STAGED + "as asked for" in line for line in said) == 2, ended.output
    weights = [np.fromfile(tmp_path / name, np.float32) for name in ("0", "1", "2", "cpu")]
    assert (weights[1] == weights[2]).all()
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weights[0], weights[3], rtol=1e-3, atol=1e-5)


@on_device
def test_gradients_of_all_kinds_travel():
    """Types and strides that the session does not know go through a buffer."""
    jobs(*(("optimizer/staged.py", "cuda", route) for route in ("dense", "sparse")))


@on_device
def test_gradients_of_bfloat16_travel_as_they_are():
    jobs(("optimizer/narrow.py", "optimizer", 2, "cuda"), ("optimizer/narrow.py", "hook", 2, "cuda"))


@on_device
@pytest.mark.parametrize("ranks", [2, 4])
def test_of_sparse_tensors_on_a_device_nothing_is_lost(ranks):
    job("sparse.py", "cuda", ranks=ranks)


@on_device
@pytest.mark.parametrize("ranks", [2, 4])
def test_training_sparsely_or_as_codes_in_place_has_the_bits_of_staged(tmp_path, ranks):
    runs = [(choice, *way) for choice in ("in_place", "stage") for way in WAYS[1:]]
    jobs(*((f"RINGWOOD_DEVICE_TENSORS={choice}", f"RINGWOOD_WIRE={wire}", "data_parallel.py", "optimizer", route,
            tmp_path / f"{choice}-{route}-{wire}", "cuda") for choice, route, wire in runs), ranks=ranks)
    for route, wire in WAYS[1:]:
        in_place, staged = ((tmp_path / f"{choice}-{route}-{wire}").read_bytes() for choice in ("in_place", "stage"))
        assert in_place == staged, (route, wire)


@on_device
def test_a_scaler_on_a_device_sees_averages_and_all_ranks_skip_together():
    job("scaler.py", "cuda")


@on_device
def test_the_hook_of_data_parallel_on_a_device_gives_the_optimizers_weights(tmp_path):
    kinds = [("optimizer", "cuda"), ("hook", "cuda"), ("scaled", "cuda"), ("optimizer", "cpu")]
    jobs(*(("data_parallel.py", how, "dense", tmp_path / f"{how}-{device}", device) for how, device in kinds))
    weights = [np.fromfile(tmp_path / f"{how}-{device}", np.float32) for how, device in kinds]
    for other in weights[1:]:
        np.testing.assert_allclose(weights[0], other, rtol=1e-3, atol=1e-4)


@on_device
def test_the_example_on_a_device_has_the_losses_of_the_cpu(tmp_path):
    losses, devices = [], ("cpu", "cuda")
    jobs(*((EXAMPLE, "--limit", 1000, "--epochs", 1, "--route", "dense", "--device", device, "--report",
            tmp_path / device) for device in devices))
    for device in devices:
        found = json.loads((tmp_path / device).read_text())
        assert (found["device"] == "cpu") == (device == "cpu") and len(set(found["weights_digest"])) == 1
        losses.append(found["losses"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
