"""A job whose coordinator has a standby: two servers, three members of etcd, all on this machine."""

import json
import pathlib
import random
import shutil
import socket
import urllib.request

from job import PROGRAM, Job, Process

ETCD = shutil.which("etcd")


def free_ports(count):
    """Below those that the kernel gives to connections: one of them must not take the port of who is down."""
    ports = []
    while len(ports) < count:
        port = random.randrange(20000, 32000)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        if port not in ports:
            ports.append(port)
    return ports


class Etcd:
    """Members by their numbers; of ports and a directory of their own."""

    def __init__(self, folder, members=3):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        ports = free_ports(2 * members)
        self.clients, self.peers = ports[:members], ports[members:]
        self.members = {member: self.start(member) for member in range(members)}

    def url(self, prefix):
        return "etcd://" + ",".join(f"127.0.0.1:{port}" for port in self.clients) + "/" + prefix

    def start(self, member):
        at, peer = f"http://127.0.0.1:{self.clients[member]}", f"http://127.0.0.1:{self.peers[member]}"
        everyone = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(self.peers))
        return Process(["setpriv", "--pdeathsig", "KILL", ETCD, f"--name=m{member}",
                        f"--data-dir={self.folder}/m{member}", f"--listen-client-urls={at}",
                        f"--advertise-client-urls={at}", f"--listen-peer-urls={peer}",
                        f"--initial-advertise-peer-urls={peer}", f"--initial-cluster={everyone}", "--logger=zap",
                        "--heartbeat-interval=50", "--election-timeout=500", "--log-level=error",
                        "--log-outputs=stderr"], self.folder / f"m{member}.log")

    def restart(self, member):
        self.members[member] = self.start(member)

    def leader(self):
        """The member that leads the others; None while there is none."""
        for member, port in enumerate(self.clients):
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/maintenance/status", b"{}")
            try:
                status = json.load(urllib.request.urlopen(request, timeout=2))
            except OSError:
                continue
            if status.get("leader") == status["header"]["member_id"]:
                return member
        return None

    def close(self):
        for each in self.members.values():
            each.end()


class StandbyJob(Job):
    """Its coordinators by their addresses; `coordinator` is the one that leads."""

    def __init__(self, folder, ranks, **settings):
        pathlib.Path(folder).mkdir(parents=True)
        self.etcd = Etcd(pathlib.Path(folder) / "etcd")
        self.coordinators = {}
        super().__init__(folder, ranks, alone=True, **settings)

    def start_coordinator(self):
        addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        for address in addresses:
            self.start_server(address)
        self.await_leader()
        self.address = ",".join(addresses)

    def start_server(self, address):
        log = self.folder / f"coordinator.{len(list(self.folder.glob('coordinator.*')))}.log"
        self.coordinators[address] = Process(
            [PROGRAM, "server", "--listen", address, "--servers", self.servers, "--no-reducer", "--coord-store",
             self.etcd.url("job"), "--failure-timeout", self.failure_timeout, *self.network, *self.elastic_flags()], log)

    def leading(self):
        """The address of the server that serves."""
        return next((address for address, each in self.coordinators.items()
                     if each.code is None and "listening on" in each.log.read_text()), None)

    def await_leader(self):
        self.wait(lambda: self.leading() is not None, "no server leads")
        self.coordinator = self.coordinators[self.leading()]

    def kill_leader(self):
        """SIGKILL of the server that leads."""
        self.coordinators[self.leading()].end()

    def restore_servers(self):
        """Who has ended stands by again."""
        for address, each in list(self.coordinators.items()):
            if each.code is not None:
                self.start_server(address)

    def close(self):
        super().close()
        for each in self.coordinators.values():
            each.end()
        self.etcd.close()
