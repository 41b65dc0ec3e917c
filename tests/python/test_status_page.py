"""The status page while its job is harmed, as a browser has it that was open before; the port under garbage; HTTPS."""

import importlib.util
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time

import pytest

from conftest import PROGRAM, ROOT, environment, run
from test_metrics import SECONDS, Job

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
        assert page.evaluate("[seconds(0.9997), seconds(0.0123), seconds(250), bytes(1010 * 1024), bytes(700), digits(1234.5)]"
                             ".join()") == "1.00 s,12.3 ms,250 s,1010 KiB,700 B,1235"
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


def certificate(folder):
    """A folder with cert.pem, key.pem and the ca.pem that vouches for them."""
    folder.mkdir()
    for words in (["init", folder / "ca"], ["issue", folder / "ca", "--role", "server", "--out", folder / "page"]):
        ended = run([PROGRAM, "ca", *words])
        assert ended.code == 0, ended.output
    return folder / "page"


def fetch(port, authority):
    context = ssl.create_default_context(cafile=authority)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        with context.wrap_socket(plain, server_hostname="ringwood") as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            answer = b""
            while more := connection.recv(1 << 16):
                answer += more
    return answer


def test_https_has_the_newest_certificate_that_can_be_read(tmp_path):
    first, second = (certificate(tmp_path / name) for name in ("first", "second"))
    page = tmp_path / "page"
    shutil.copytree(first, page)
    log = tmp_path / "log"
    with open(log, "wb") as file:
        server = subprocess.Popen([PROGRAM, "server", "--listen", "127.0.0.1:0", "--insecure", "--http", "127.0.0.1:0",
                                   "--http-tls", page, "--store", tmp_path / "store"], stdout=file, stderr=file,
                                  env=environment())
    try:
        port = int(wait(lambda: re.search(r"metrics at https://127\.0\.0\.1:(\d+)/", log.read_text()))[1])
        assert fetch(port, first / "ca.pem").startswith(b"HTTP/1.1 200 OK")
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:  # is not spoken with
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert not plain.recv(1 << 16).startswith(b"HTTP")
        shutil.copy(second / "key.pem", page)  # the other's key: what is there no longer fits
        assert fetch(port, first / "ca.pem").startswith(b"HTTP/1.1 200 OK")
        assert "the one before stays in use" in log.read_text()
        time.sleep(0.02)  # a file system's times may be a tick of the kernel's clock apart
        shutil.copy(second / "cert.pem", page)
        assert fetch(port, second / "ca.pem").startswith(b"HTTP/1.1 200 OK")
        with pytest.raises(ssl.SSLError):
            fetch(port, first / "ca.pem")
    finally:
        server.terminate()
        server.wait()


def wait(holds):
    deadline = time.monotonic() + SECONDS
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def test_a_page_without_its_certificate_is_refused(tmp_path):
    start = [PROGRAM, "server", "--listen", "127.0.0.1:0", "--insecure"]
    ended = run([*start, "--http", "127.0.0.1:0", "--http-tls", tmp_path])
    assert ended.code == 78 and f"--http-tls: cannot use {tmp_path}/cert.pem: No such file" in ended.output, ended.output
    (tmp_path / "cert.pem").write_text("no certificate")
    (tmp_path / "key.pem").write_text("no key")
    (tmp_path / "key.pem").chmod(0o600)
    ended = run([*start, "--http", "127.0.0.1:0", "--http-tls", tmp_path])
    assert ended.code == 78 and f"cannot use {tmp_path}/cert.pem: no start line" in ended.output, ended.output
    ended = run([*start, "--http-tls", tmp_path])
    assert ended.code == 78 and "give its address with --http" in ended.output, ended.output
