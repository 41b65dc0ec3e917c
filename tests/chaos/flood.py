"""Garbage on every port of a job under TLS that trains: nothing dies, and nothing of it is kept.

A job of two ranks and a server with a status page runs with `ringwood run --tls`, so no port is UCX's. Each port gets
connections that say nothing, noise, the beginning of HTTP/2 or of TLS, or a whole handshake without a certificate, and
that end in order or by a reset. The memory of the process whose port it is, is read after a warm-up and at the end.
"""

import os
import pathlib
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time

from job import PROGRAM, PYTHON, environment

WARM_UP = 0.2  # of the connections come before memory is read
GROWTH = 5 << 20  # bytes, at most
PATIENCE = 60  # seconds

TRAINER = """
import os, pathlib, sys, time
import numpy, ringwood
said, stop = map(pathlib.Path, sys.argv[1:])
with ringwood.Session() as session:
    values = numpy.zeros(1000, numpy.float32)
    session.register("values", values, route="dense")
    while values[0] == 0:  # all ranks see the same sum
        values[:] = stop.exists() and session.rank == 0
        session.begin_step(1)
        session.ready("values")
        result = session.finish_step()
        if session.rank == 0:
            said.with_suffix(".new").write_text(str(result.step))
            said.with_suffix(".new").replace(said)
        time.sleep(0.02)
"""


def wait(condition, what):
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.05)
    return found


def processes_below(root):
    parents = {}
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = status.read_text().rsplit(")", 1)
        except OSError:
            continue  # it has ended
        parents[int(name.split(" ")[0])] = int(rest.split()[1])
    below = {root}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return below


def listening(pid):
    """The TCP ports on which a process listens."""
    inodes = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes |= set(re.findall(r"^socket:\[(\d+)\]$", os.readlink(link)))
        except OSError:
            continue
    rows = [line.split() for table in ("tcp", "tcp6")  # gRPC's sockets are of IPv6, with mapped addresses
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
    return sorted(int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[9] in inodes)


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) << 10


def hello(context):
    """The first bytes of a TLS client."""
    sent = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()


class Stranger:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        self.context.set_alpn_protocols(["h2"])

    def garbage(self):
        noise = self.random.randbytes(self.random.randrange(3000))
        start = self.random.choice([b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n", hello(self.context)])
        return start + self.random.choice([b"", noise])

    def annoy(self, port):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
                if self.random.random() < 0.05:
                    with self.context.wrap_socket(line) as tls:
                        tls.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                    return
                line.sendall(self.garbage())
                if self.random.random() < 0.5:
                    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass  # it was refused


def flood(pid, port, count, stranger):
    for _ in range(int(count * WARM_UP)):
        stranger.annoy(port)
    before = resident(pid)
    for _ in range(count):
        stranger.annoy(port)
    end = time.monotonic() + 10  # connections that said nothing are ended after 5 s
    after = resident(pid)
    while after - before > GROWTH and time.monotonic() < end:
        time.sleep(0.2)
        after = resident(pid)
    return before, after


def run(options, folder):
    """Prints the figures; returns the findings."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    script, said, stop = folder / "trainer.py", folder / "step", folder / "stop"
    script.write_text(TRAINER)
    with (folder / "output").open("w") as output, subprocess.Popen(
            [PROGRAM, "run", "--tls", "-np", "2", "--http", "127.0.0.1:0", "--", sys.executable, script, said, stop],
            env=environment(**PYTHON), stdout=output, stderr=subprocess.STDOUT) as job:
        try:
            return annoy_all(options, job, said, stop, folder / "output")
        finally:
            if job.poll() is None:
                job.send_signal(signal.SIGINT)


def annoy_all(options, job, said, stop, output):
    def step():
        return int(said.read_text()) if said.exists() else 0

    wait(lambda: job.poll() is not None or step() > 3, "the job does not begin")
    if job.poll() is not None:
        return [f"the job ended with {job.poll()} before it began:\n{output.read_text()[-2000:]}"]
    found, stranger = [], Stranger(options.seed)
    print("| process | port | RSS after the warm-up (MB) | at the end (MB) |\n|---|---:|---:|---:|")
    for pid in sorted(processes_below(job.pid)):
        try:
            name, ports = pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "), listening(pid)
        except OSError:
            continue  # it has ended
        for port in ports:
            before, after = flood(pid, port, options.connections, stranger)
            what = "server" if " server " in name else "rank"
            print(f"| {what} | {port} | {before / 1e6:.1f} | {after / 1e6:.1f} |", flush=True)
            if after - before > GROWTH:
                found.append(f"{what}, port {port}: {(after - before) / 1e6:.1f} MB stay of {options.connections} connections")
    now = step()
    wait(lambda: job.poll() is not None or step() > now + 3, "the job does not go on")
    stop.touch()
    code = job.wait(PATIENCE)
    lines = len(output.read_text().splitlines())
    print(f"{options.connections} connections a port after {int(options.connections * WARM_UP)}; step {step()} committed, "
          f"exit code {code}, {lines} lines of log")
    if code != 0:
        found.append(f"the job ended with {code}:\n{output.read_text()[-2000:]}")
    return found
