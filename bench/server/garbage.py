#!/usr/bin/env python3
"""Connections that speak no HTTP, against the status port of a server of its own: does it live, and what does it keep?

    bench/server/garbage.py build/release/bin/ringwood [--connections 10000] [--warm-up 2000]

Each connection sends one of several kinds of garbage, or nothing; half of them are closed at once, the others wait
for an answer. Prints the server's resident memory after the warm-up and at the end, and asks for the status at both
times. Exit code 1: it died, does not answer, or keeps more than --most-bytes beyond the warm-up.
"""

import argparse
import contextlib
import http.client
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import tempfile

KINDS = [
    lambda chance: b"",
    lambda chance: chance.randbytes(chance.randrange(1, 4096)),
    lambda chance: b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * chance.randrange(1, 20000),
    lambda chance: b"GET " + b"/" * chance.randrange(1, 9000) + b" HTTP/1.1\r\n\r\n",
    lambda chance: b"POST /status.json HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n" + chance.randbytes(64),
    lambda chance: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(200),
    lambda chance: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + chance.randbytes(32),
    lambda chance: b"GET /metrics HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
    lambda chance: b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    lambda chance: b"GET /%00%ff HTTP/1.0\n\n",
]
BATCH = 16  # open at once: the port keeps 32 waiting


def resident_bytes(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def throw(port, count, chance):
    """`count` connections, BATCH of them at a time. Half of them wait for an answer, once the others have gone."""
    for begin in range(0, count, BATCH):
        waiting = []
        for _ in range(min(BATCH, count - begin)):
            connection = socket.create_connection(("127.0.0.1", port), timeout=30)
            with contextlib.suppress(OSError):  # it may refuse at any byte
                connection.sendall(chance.choice(KINDS)(chance))
            if chance.random() < 0.5:
                waiting.append(connection)
            else:
                connection.close()
        for connection in waiting:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
        for connection in waiting:
            with contextlib.suppress(OSError):
                while connection.recv(1 << 16):
                    pass
            connection.close()


def answers(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/status.json")
    return connection.getresponse().status == 200


class Server:
    """`ringwood server` on loopback with a status port of the kernel's choice."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen(
            [program, "server", "--listen", "127.0.0.1:0", "--insecure", "--http", "127.0.0.1:0", "--store", f"{folder}/store",
             "--log-level", "info"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.port = None
        for line in self.process.stdout:
            if found := re.search(r"metrics at http://127\.0\.0\.1:(\d+)/", line):
                self.port = int(found[1])
                break
        assert self.port, "the server did not start"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def measure(program, connections, warm_up, seed=1):
    """(resident bytes after the warm-up, at the end); an AssertionError where it died or does not answer."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, Server(program, folder) as server:
        assert answers(server.port)
        throw(server.port, warm_up, chance)
        assert answers(server.port)
        before = resident_bytes(server.process.pid)
        throw(server.port, connections, chance)
        assert answers(server.port)
        assert server.process.poll() is None
        return before, resident_bytes(server.process.pid)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", help="build/release/bin/ringwood")
    parser.add_argument("--connections", type=int, default=10000)
    parser.add_argument("--warm-up", type=int, default=2000)
    parser.add_argument("--most-bytes", type=int, default=5_000_000)
    options = parser.parse_args()
    before, after = measure(os.path.abspath(options.program), options.connections, options.warm_up)
    print(f"{options.connections} connections after {options.warm_up}: alive; resident {before / 1e6:.1f} MB before, "
          f"{after / 1e6:.1f} MB after: {(after - before) / 1e6:+.2f} MB")
    return 0 if after - before < options.most_bytes else 1


if __name__ == "__main__":
    sys.exit(main())
