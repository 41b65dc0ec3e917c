"""What the status port and the commands that look at a job say, against the job's own account."""

import codecs
import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from conftest import PROGRAM, ROOT, environment, run

sys.path.insert(0, str(ROOT / "tests"))
import prometheus_text  # noqa: E402

JOB = pathlib.Path(__file__).with_name("reporting_job.py")
SECONDS = 120  # on a loaded machine; every wait is for a condition


def get(port, path, token=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class Job:
    """`ringwood run --http` of a script; its port is known when it serves."""

    def __init__(self, folder, *command, ranks=3, flags=()):
        self.log = folder / "log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in (PROGRAM, "run", "-np", ranks, "--http", "127.0.0.1:0", *flags, "--",
                                        sys.executable, *command)],
                stdout=log, stderr=subprocess.STDOUT, env=environment(), start_new_session=True)

    def __enter__(self):
        try:
            self.wait(lambda: "metrics at http://" in self.log.read_text() and "coordinator at" in self.log.read_text())
        except BaseException:
            self.__exit__()
            raise
        self.port = int(re.search(r"metrics at http://127\.0\.0\.1:(\d+)/", self.log.read_text())[1])
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait(self, holds):
        deadline = time.monotonic() + SECONDS
        while not (found := holds()):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()[-4000:]
            time.sleep(0.05)
        return found

    def status(self):
        code, body = get(self.port, "/status.json")
        assert code == 200, body
        return json.loads(body)

    def store(self):
        return re.search(r"checkpoints in (\S+)", self.log.read_text())[1]

    def coordinator(self):
        return re.search(r"coordinator at (\S+) on", self.log.read_text())[1]


def seen_by_a_browser(port, folder):
    """The page after a second, as headless Chromium has it; None where there is no Chromium."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    shown = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/browser",
                            "--virtual-time-budget=3000", "--dump-dom", f"http://127.0.0.1:{port}/"],
                           capture_output=True, text=True, timeout=SECONDS)
    return shown.stdout


def ranks_of(status):
    return {slot["slot"]: slot for slot in status["slots"] if slot["role"] == "rank"}


def test_totals_equal_the_account_of_every_rank_and_the_metrics_pass_the_lint(tmp_path):
    steps = 20
    with Job(tmp_path, JOB, tmp_path, steps, ranks=3) as job:
        job.wait(lambda: all((tmp_path / f"{rank}.json").exists() for rank in range(3)))
        status = job.wait(lambda: (now := job.status()) and len(ranks_of(now)) == 3 and all(
            slot["totals"]["steps"] == steps for slot in ranks_of(now).values()) and now)
        own = {rank: json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)}
        for rank, slot in ranks_of(status).items():
            totals = slot["totals"]
            assert {"steps": totals["steps"], "ring": totals["ring"]["bytes"], "tree": totals["tree"]["bytes"]} == own[rank]
            assert totals["tree"]["bytes"] > 0 and totals["ring"]["bytes"] > 0
            assert 0 < totals["tree"]["density"] < 0.02 and slot["late_steps"] == steps
            phases = sum(totals[f"{phase}_seconds"]
                         for phase in ("loading", "forward", "backward", "exposed", "vote", "apply"))
            assert phases == pytest.approx(totals["step_seconds"])

        code, text = get(job.port, "/metrics")
        assert code == 200
        families = prometheus_text.parse(text)
        assert not prometheus_text.lint(families)
        job_label = ("job", status["job"])
        for rank in range(3):
            for lane in ("ring", "tree"):
                labels = frozenset({job_label, ("role", "rank"), ("slot", str(rank)), ("lane", lane)})
                assert families["ringwood_sent_bytes_total"][2][labels] == own[rank][lane]
        if shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
            assert checked.returncode == 0, checked.stdout + checked.stderr

        (tmp_path / "go").touch()
        assert job.process.wait(SECONDS) == 0, job.log.read_text()


def test_the_status_command_says_the_same_as_the_port(tmp_path):
    with Job(tmp_path, JOB, tmp_path, 5, ranks=2) as job:
        job.wait(lambda: len(ranks_of(job.status())) == 2)
        ask = (PROGRAM, "status", "--server", job.coordinator(), "--store", job.store())
        told = run((*ask, "--json"))
        assert told.code == 0, told.output
        said, served = json.loads(told.output), job.status()
        assert said.keys() == served.keys() and said["job"] == served["job"]
        assert [slot["slot"] for slot in said["slots"]] == [slot["slot"] for slot in served["slots"]]
        text = run(ask)
        assert text.code == 0 and served["job"] in text.output and "epoch_begun" in text.output, text.output
        frame = run((PROGRAM, "top", "--once", "--coordinator", job.coordinator(), "--store", job.store()))
        assert frame.code == 0 and "ringwood: running" in frame.output, frame.output
        assert "\x1b" not in frame.output
        (tmp_path / "go").touch()


def test_after_a_kill_the_port_answers_and_names_the_rank(tmp_path):
    flags = ("--elastic", "--max-restarts", 0)
    with Job(tmp_path, ROOT / "examples" / "elastic.py", "--synthetic", "--limit", 1000, "--epochs", 100000, "--history",
             tmp_path / "history", ranks=3, flags=flags) as job:
        job.wait(lambda: job.status()["step"] > 3)
        victim = int(job.wait(lambda: next(tmp_path.glob("history.1.*"), None)).name.split(".")[2])
        os.kill(victim, signal.SIGKILL)

        def again():  # the others are in the next epoch, and each has been heard in it
            now = job.status()
            present = [rank["slot"] for rank in ranks_of(now).values() if rank["state"] == "present"]
            return now["failures"] and now["phase"] == "running" and present == [0, 2] and now

        status = job.wait(again)
        failed = [event for event in status["events"] if event["name"] == "epoch_failed"]
        assert failed[0]["slot"] == 1 and "rank 1" in failed[0]["text"] and "rank 1" in status["last_failure"]
        assert ranks_of(status)[1]["state"] in ("gone", "away")
        committed = status["step"]
        job.wait(lambda: job.status()["step"] > committed + 3)
        assert get(job.port, "/")[0] == 200
        shown = seen_by_a_browser(job.port, tmp_path)
        assert shown is None or ("epoch_failed" in shown and 'class="bad">gone' in shown), shown
        families = prometheus_text.parse(get(job.port, "/metrics")[1])
        assert sum(families["ringwood_failures_total"][2].values()) >= 1


def test_a_slow_loader_is_named_as_the_straggler(tmp_path):
    with Job(tmp_path, JOB, tmp_path, 100000, 2, ranks=3) as job:
        slot = job.wait(lambda: (ranks := ranks_of(job.status())) and 2 in ranks and ranks[2]["straggles"] and ranks[2])
        assert "after the first rank's" in slot["straggles"]


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command, rows, columns, **variables):
        self.process, self.descriptor = pty.fork()
        if self.process == 0:
            os.chdir(ROOT)
            os.execve(command[0], [str(word) for word in command], environment(TERM="xterm", **variables))
        self.resize(rows, columns)
        self.seen, self._decoder = "", codecs.getincrementaldecoder("utf-8")("replace")  # a read may end within a letter

    def resize(self, rows, columns):
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait(self, holds):
        deadline = time.monotonic() + SECONDS
        while not holds(self.seen):
            assert time.monotonic() < deadline, self.seen[-4000:]
            self._read(0.2)

    def _read(self, seconds):
        """Whether there was something within the time; OSError where the program has ended and all is read."""
        there = select.select([self.descriptor], [], [], seconds)[0]
        if there:
            self.seen += self._decoder.decode(os.read(self.descriptor, 1 << 16))
        return bool(there)

    def type(self, text):
        os.write(self.descriptor, text.encode())

    def end(self):
        """The exit code, with all that it still writes."""
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError):
                self._read(0.1)
            ended, status = os.waitpid(self.process, os.WNOHANG)
            if ended:
                with contextlib.suppress(OSError):
                    while self._read(0):  # its last words
                        pass
                os.close(self.descriptor)
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, self.seen[-4000:]


def frames(seen):
    return [frame.split("\x1b[J")[0] for frame in seen.split("\x1b[H")[1:] if "\x1b[J" in frame]


def plain(frame):
    return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", line) for line in frame.split("\n")]


@contextlib.contextmanager
def top_of_a_job(folder, **variables):
    """`ringwood top`, which has drawn; q ends it."""
    with Job(folder, JOB, folder, 100000, ranks=2) as job:
        job.wait(lambda: len(ranks_of(job.status())) == 2)
        top = Terminal([PROGRAM, "top", "--coordinator", job.coordinator(), "--store", job.store(), "--every", "0.1"], 30, 110,
                       **variables)
        try:
            top.wait(lambda seen: len(frames(seen)) >= 2)
            yield top
        finally:
            os.kill(top.process, signal.SIGCONT)
            top.type("q")
            code = top.end()
        assert code == 0 and top.seen.endswith("\x1b[?25h\x1b[?1049l"), top.seen[-200:]


def test_top_draws_frames_that_fit_and_ends_with_q(tmp_path):
    with top_of_a_job(tmp_path) as top:
        assert len(plain(frames(top.seen)[-1])) > 4
        top.resize(4, 30)
        top.wait(lambda seen: any(len(plain(frame)) <= 4 for frame in frames(seen)))
        small = next(plain(frame) for frame in frames(top.seen) if len(plain(frame)) <= 4)
        assert all(len(line) <= 30 for line in small) and small[0].startswith("ringwood: running"), small


def test_top_has_no_colors_where_none_are_wanted(tmp_path):
    with top_of_a_job(tmp_path, NO_COLOR="1") as top:
        assert frames(top.seen) and not re.search(r"\x1b\[\d+m", top.seen), top.seen


def test_top_follows_a_job_that_is_started_again(tmp_path):
    store = tmp_path / "store"
    flags = ("--store", store, "--max-restarts", 3, "--resume=auto")
    with Job(tmp_path, JOB, tmp_path, 100000, ranks=2, flags=flags) as job:
        job.wait(lambda: len(ranks_of(job.status())) == 2)
        top = Terminal([PROGRAM, "top", "--store", store, "--every", "0.1"], 30, 110)
        try:
            top.wait(lambda seen: len(frames(seen)) >= 2)
            os.kill(next(process for process in map(int, filter(str.isdigit, os.listdir("/proc")))
                         if runs_in(process, tmp_path)), signal.SIGKILL)
            job.wait(lambda: job.log.read_text().count("ringwood: coordinator ") == 2)
            before = len(frames(top.seen))
            top.wait(lambda seen: any(frame.startswith("\x1b[1mringwood: running") and "no coordinator" not in frame
                                      for frame in frames(seen)[before + 2:]))
        finally:
            top.type("q")
            assert top.end() == 0


def runs_in(process, folder):
    """Whether it is a rank of JOB in this folder."""
    with contextlib.suppress(OSError):
        words = pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
        return words[1:3] == [str(JOB).encode(), str(folder).encode()]
    return False


def test_top_gives_the_terminal_back_while_it_is_stopped(tmp_path):
    with top_of_a_job(tmp_path) as top:
        assert not termios.tcgetattr(top.descriptor)[3] & termios.ICANON
        os.kill(top.process, signal.SIGTSTP)  # as a shell's Ctrl-Z
        top.wait(lambda seen: seen.endswith("\x1b[?25h\x1b[?1049l"))
        ended, status = os.waitpid(top.process, os.WUNTRACED)
        assert ended and os.WIFSTOPPED(status), status
        assert termios.tcgetattr(top.descriptor)[3] & termios.ICANON
        drawn = len(top.seen)
        os.kill(top.process, signal.SIGCONT)
        top.wait(lambda seen: "\x1b[?1049h\x1b[?25l" in seen[drawn:] and frames(seen[drawn:]))
        assert not termios.tcgetattr(top.descriptor)[3] & termios.ICANON


def test_off_loopback_a_status_port_without_a_token_is_refused():
    ended = run((PROGRAM, "server", "--listen", "127.0.0.1:0", "--insecure", "--http", "192.0.2.1:0"))
    assert ended.code == 78 and "--trusted-fabric" in ended.output, ended.output
    ended = run((PROGRAM, "run", "-np", 1, "--no-server", "--http", "127.0.0.1:0", "--", "true"))
    assert ended.code == 78 and "--http" in ended.output, ended.output
