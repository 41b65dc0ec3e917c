"""The status page while its job is harmed, as a browser has it that was open before; and the port under garbage."""

import importlib.util
import os
import signal
import sys
import time

import pytest

from conftest import PROGRAM, ROOT
from test_metrics import Job

sys.path.insert(0, str(ROOT / "tests"))
import browser  # noqa: E402

# Names of the members that take no part.
GONE = ("[...document.querySelectorAll('#members tr')].filter(row => ['gone', 'away'].includes(row.cells[2].textContent))"
        ".map(row => row.cells[0].textContent).join()")


def members(state):
    return f"[...document.querySelectorAll('#members td.{state}')].length"


@pytest.mark.skipif(not browser.installed(), reason="Chromium is not installed")
def test_an_open_page_shows_a_death_and_what_is_left_of_a_server(tmp_path):
    flags = ("--elastic", "--max-restarts", 0)
    with Job(tmp_path, ROOT / "examples" / "elastic.py", "--synthetic", "--limit", 1000, "--epochs", 100000, "--history",
             tmp_path / "history", ranks=3, flags=flags) as job, browser.Browser(tmp_path) as page:
        def shown(expression):
            job.wait(lambda: page.evaluate(expression))

        page.open(f"http://127.0.0.1:{job.port}/")
        shown(f"document.getElementById('phase').textContent === 'running' && {members('good')} >= 3")
        assert page.evaluate("document.getElementById('failure').textContent") == ""
        victim = int(job.wait(lambda: next(tmp_path.glob("history.1.*"), None)).name.split(".")[2])
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        shown(f"{GONE}.includes('rank 1')")
        print(f"shown {time.monotonic() - killed:.2f} s after the kill")
        page.screenshot(tmp_path / "page.png")
        assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
        shown("document.getElementById('failure').textContent.includes('rank 1')")
        shown("document.getElementById('events').textContent.includes('epoch_failed')")
        shown("document.getElementById('phase').textContent === 'running'")
        step = int(page.evaluate("document.getElementById('step').textContent"))
        shown(f"Number(document.getElementById('step').textContent) > {step}")  # the others go on

        # Without its server the page keeps what it knew, and says that nobody answers.
        os.killpg(job.process.pid, signal.SIGKILL)
        page.wait("document.getElementById('phase').textContent === 'no answer from the server'")
        assert page.evaluate(f"{GONE}.includes('rank 1')")


def test_the_port_outlives_garbage():
    spec = importlib.util.spec_from_file_location("garbage", ROOT / "bench" / "server" / "garbage.py")
    garbage = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(garbage)
    before, after = garbage.measure(PROGRAM, connections=300, warm_up=100)
    assert before > 0 and after - before < 20e6  # a connection that kept its 20,000 bytes would show
