"""Readers that are no ranks: what they get is the state of one committed step, and the training goes on."""

import json
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from conftest import JOBS, LIBRARY, PROGRAM, ROOT, environment, run

SECONDS = 170  # for what takes one on an idle machine


class Job:
    """A server with a store, and two ranks of jobs/pulled.py."""

    def __init__(self, folder, when="due", size=1000, token=None):
        self.history, self.store, self.log = folder / "history", folder / "store", folder / "log"
        self.token, flags = token, []
        if token:
            (folder / "token").touch(0o600)
            (folder / "token").write_text(token)
            flags = ["--token-file", folder / "token"]
        self.flags, self.processes = flags, []
        self.serve()
        for rank in (0, 1) if when else ():
            self.processes.append(self._start([sys.executable, JOBS / "pulled.py", self.history, when, size],
                                              RANK=str(rank), WORLD_SIZE="2", **self.environment()))
        if when:
            self.wait_for(self.digests)

    def serve(self, listen="127.0.0.1:0"):
        """Another server where the one before has ended."""
        before = sum("listening on" in line for line in self.said()) if self.log.exists() else 0
        self.processes.insert(0, self._start([PROGRAM, "server", "--listen", listen, "--store", self.store, "--insecure",
                                              *self.flags]))
        self.address = self.wait_for(lambda: [
            line.split()[-1] for line in self.said() if "listening on" in line][before:])[0]

    def environment(self):
        return {"RINGWOOD_COORDINATOR": self.address, **({"RINGWOOD_TOKEN": self.token} if self.token else {})}

    def _start(self, command, **changes):
        with open(self.log, "ab") as log:
            return subprocess.Popen([str(word) for word in command], env=environment(**changes), stdout=log,
                                    stderr=log)

    def said(self):
        return self.log.read_text(errors="replace").splitlines()

    def wait_for(self, found):
        end = time.monotonic() + SECONDS
        while not (value := found()):
            assert time.monotonic() < end, "\n".join(self.said()[-30:])
            assert all(process.poll() is None for process in self.processes), "\n".join(self.said()[-30:])
            time.sleep(0.05)
        return value

    def digests(self):
        """Step -> digest."""
        if not self.history.exists():
            return {}
        return {int(step): digest for step, digest in
                (line.split() for line in self.history.read_text().splitlines(keepends=True) if line.endswith("\n"))}

    def trains_on(self):
        seen = max(self.digests(), default=0)
        self.wait_for(lambda: max(self.digests(), default=0) > seen + 3)

    def read(self, script, *arguments):
        """What a Python process that is no rank prints as JSON."""
        ended = run([sys.executable, "-c", script, *arguments], SECONDS, **self.environment())
        assert ended.code == 0, ended.output
        return json.loads(ended.output.splitlines()[-1])

    def pull(self, *flags, code=0, **changes):
        ended = run([PROGRAM, "pull", *flags], SECONDS, **{**self.environment(), **changes})
        assert ended.code == code, ended.output
        return ended.output

    def stop_ranks(self):
        pathlib.Path(f"{self.history}.stop").touch()
        for process in self.processes[1:]:
            assert process.wait(SECONDS) == 0, "\n".join(self.said()[-30:])
        del self.processes[1:]

    def close(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture
def job(tmp_path):
    made = []

    def make(*arguments, **options):
        made.append(Job(tmp_path, *arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


# argv: how often.
READ = """
import hashlib, json, ringwood, sys
found = []
for _ in range(int(sys.argv[1])):
    step, weights = ringwood.pull(timeout=150)
    assert weights["scale"].shape == (2, 3) and list(sorted(weights)) == ["large", "scale"], weights
    found.append([step, hashlib.sha256(weights["large"].tobytes() + weights["scale"].tobytes()).hexdigest()])
print(json.dumps(found))
"""


def test_three_pulls_get_three_committed_steps(job):
    """Then a file, with one tensor alone; and what the store has when no rank runs."""
    training = job(token="secret-of-the-job")
    pulled = training.read(READ, 3)
    steps = [step for step, _ in pulled]
    assert steps[0] < steps[1] < steps[2], steps
    training.wait_for(lambda: max(training.digests()) >= steps[2])
    assert all(training.digests()[step] == digest for step, digest in pulled)
    file = training.store.parent / "one.safetensors"
    told = json.loads(training.pull("--out", file, "--item", "scale", "--json"))
    assert told["tensors"] == 1 and told["bytes"] == 24 and told["step"] > steps[2] and told["age_seconds"] < 60, told
    content = file.read_bytes()
    header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
    assert header["scale"]["shape"] == [2, 3] and header["__metadata__"]["ringwood.step"] == str(told["step"])
    assert not list(file.parent.glob("*.part"))

    output = training.pull("--out", file, "--item", "nonsense", "--newest-stored", code=78)
    assert "is 'nonsense'; it has: " in output and "model/scale" in output, output
    other = training.pull("--out", file, "--job", "00000000000000aa", code=78)
    assert "job 00000000000000aa does not run here" in other and told["job"] in other, other
    denied = training.pull("--out", file, code=78, RINGWOOD_TOKEN="another")
    assert "wrong token" in denied and "--store" in denied, denied
    assert "tensor" in training.pull("--out", file, "--store", training.store, RINGWOOD_TOKEN="")

    training.stop_ranks()
    last = json.loads(training.pull("--out", file, "--newest-stored", "--json"))
    assert last["job"] == told["job"] and last["step"] >= told["step"], last
    over = training.pull("--out", file, code=78)
    assert "no job runs here" in over and "--newest-stored" in over, over


def test_a_reader_that_dies_in_the_middle_costs_nothing(job):
    training = job(size=1_000_000)
    ended = run([sys.executable, "-c", """
import ctypes, os, signal
from ringwood import weights
read = []
def die(name, dtype, shape):
    if read:
        os.kill(os.getpid(), signal.SIGKILL)
    read.append(name)
    return weights._array(name, dtype, shape)
weights.pulled(die, None, ["large", "scale"], None, 150)
"""], SECONDS, **training.environment())
    assert ended.code == -signal.SIGKILL, ended.output
    training.trains_on()
    (step, digest), = training.read(READ, 1)
    training.wait_for(lambda: step in training.digests())
    assert training.digests()[step] == digest


FLOOD = """
import json, threading, time, ringwood
begin, asked, end = time.monotonic(), [0], time.monotonic() + 4
def ask():
    while time.monotonic() < end:
        try:
            ringwood.pull(items="scale", timeout=5)
            asked[0] += 1
        except ringwood.RingwoodError:
            pass
threads = [threading.Thread(target=ask) for _ in range(16)]
[each.start() for each in threads]
[each.join() for each in threads]
print(json.dumps([asked[0], time.monotonic() - begin]))
"""


def complete(training):
    return sum("is complete" in line for line in training.said())


def test_many_readers_share_checkpoints_of_a_bounded_rate(job):
    """Each of 16 asks again at once when it has got one."""
    training = job()
    training.trains_on()
    before = complete(training)
    pulls, seconds = training.read(FLOOD)
    made = complete(training) - before
    assert 1 <= made <= seconds / 2 + 3, (made, pulls, seconds)  # SaveClock::kWantedSeconds apart
    assert pulls > 4 * made, (made, pulls)
    training.trains_on()


def test_a_trainer_that_never_saves_holds_no_reader(job):
    training = job("never")
    file = training.store.parent / "out"
    output = training.pull("--out", file, "--timeout", "6", code=75)
    assert "no rank has saved since then" in output and "--newest-stored" in output, output
    assert "no complete checkpoint" in training.pull("--out", file, "--newest-stored", code=78)
    assert not file.exists()
    for place in (training.store.parent, training.store.parent / "none" / "out"):  # without a wait
        assert str(place) in training.pull("--out", place, "--timeout", "6", code=78)


TENSORS = """
import json, ringwood.torch as rw
step, weights = rw.pull(timeout=150)
print(json.dumps([step, {name: [str(value.dtype), list(value.shape)] for name, value in weights.items()}]))
"""


def test_a_trainer_with_an_interval_of_its_own_gives_the_next_one(job):
    """As tensors."""
    pytest.importorskip("torch")
    step, weights = job("20").read(TENSORS)
    assert step % 20 == 0
    assert weights == {"large": ["torch.float32", [1000]], "scale": ["torch.float32", [2, 3]]}


def test_a_pull_by_the_store_goes_to_the_server_that_is_started_again(job):
    training = job("20")
    training.wait_for(lambda: complete(training))
    training.stop_ranks()
    dead = training.processes.pop()
    dead.kill()
    dead.wait()
    file = training.store.parent / "out"
    pull = training._start([PROGRAM, "pull", "--store", training.store, "--newest-stored", "--timeout", SECONDS,
                            "--out", file])
    try:
        training.wait_for(lambda: pull.poll() is not None or any("is waited for" in line for line in training.said()))
        assert pull.poll() is None, "\n".join(training.said()[-30:])
        training.serve()
        assert pull.wait(SECONDS) == 0, "\n".join(training.said()[-30:])
    finally:
        pull.kill()
        pull.wait()
    assert file.exists()


# Prints "read" after the first item, and the rest after a line of its input.
READ_IN_TWO = """
import hashlib, json, sys
from ringwood import weights
read = []
def make(name, dtype, shape):
    if read:
        print("read", flush=True)
        sys.stdin.readline()
    read.append(name)
    return weights._array(name, dtype, shape)
step, got = weights.pulled(make, None, ["large", "scale"], None, 150, newest_stored=True)
print(json.dumps([step, hashlib.sha256(got["large"].tobytes() + got["scale"].tobytes()).hexdigest()]))
"""


def test_a_server_that_is_killed_under_a_read_is_read_on_when_it_is_back(job):
    training = job("20")
    training.wait_for(lambda: complete(training))
    training.stop_ranks()
    reader = subprocess.Popen([sys.executable, "-c", READ_IN_TWO], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True, env=environment(**training.environment()))
    try:
        assert reader.stdout.readline() == "read\n"
        dead = training.processes.pop()
        dead.kill()
        dead.wait()
        reader.stdin.write("\n")
        reader.stdin.flush()
        training.serve(training.address)
        step, digest = json.loads(reader.communicate(timeout=SECONDS)[0])
        assert reader.returncode == 0 and training.digests()[step] == digest
    finally:
        reader.kill()
        reader.wait()


def test_another_server_on_the_port_of_a_dead_one_is_not_taken_for_it(job, tmp_path):
    """What a server on the store x left when it was killed, and then another job got its port."""
    training = job("20")
    training.wait_for(lambda: complete(training))
    store, file = tmp_path / "x", tmp_path / "out"
    dead = training._start([PROGRAM, "server", "--listen", "127.0.0.1:0", "--store", store, "--insecure"])
    try:
        training.wait_for(lambda: dead.poll() is not None or (store / "address").exists())
    finally:
        dead.kill()
        dead.wait()
    start = (store / "address").read_text().split()[1]
    (store / "address").write_text(f"{training.address}\n{start}\n")
    for flags in (), ("--newest-stored",):
        output = training.pull("--store", store, "--out", file, *flags, code=78)
        assert f"the server at {training.address} does not serve this store" in output, output
    for command in "status", "top":
        ended = run([PROGRAM, command, "--store", store, *(["--once"] if command == "top" else [])], SECONDS)
        assert ended.code == 78 and "does not serve this store" in ended.output, ended.output
    assert not file.exists()


def test_who_cannot_be_asked_is_named(job):
    output = run([PROGRAM, "pull", "--server", "127.0.0.1:1", "--out", "x", "--timeout", "1"]).output
    assert "the server 127.0.0.1:1" in output and "ringwood server" in output, output
    idle = job(None)
    output = idle.pull("--out", "x", code=78)
    assert "no job runs here" in output, output


def test_a_reader_in_c(job, tmp_path):
    training = job("20", token="secret-of-the-job")
    built = run(["cc", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", ROOT / "examples" / "pull.c", LIBRARY,
                 f"-Wl,-rpath,{LIBRARY.parent}", "-o", tmp_path / "pull"])
    assert built.code == 0, built.output
    ended = run([tmp_path / "pull", training.address], SECONDS, **training.environment())
    assert ended.code == 0 and "scale: F32 [2, 3], 24 bytes, sum" in ended.output, ended.output
    assert " 2 tensors, 4024 bytes" in ended.output, ended.output
    ended = run([tmp_path / "pull", training.address, "nothing*"], SECONDS, **training.environment())
    assert ended.code == 78 and "'nothing*'; it has: " in ended.output, ended.output
    ended = run([tmp_path / "pull", training.address], SECONDS)
    assert ended.code == 78 and "no token" in ended.output, ended.output
