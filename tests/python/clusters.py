"""Cluster managers of the tests' own, on loopback: Slurm with two nodes, an SSH server. Each lives in a folder, is
started from there with its own configuration, and is ended by its processes."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

SECONDS = 60  # until a service serves


def lacks(*programs):
    """What is missing to start them, or None."""
    missing = [program for program in programs if which(program) is None]
    if missing:
        return f"{', '.join(missing)} not installed"
    return None if os.geteuid() == 0 else "its services are started as root"


def which(program):
    return shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def free_ports(count):
    """The first of so many neighbours that nobody listens on."""
    for first in range(21000 + os.getpid() % 9000, 32000, count):
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
                return first
            except OSError:
                continue
    raise OSError("no free ports")


class Services:
    """Processes in the foreground, ended in the reverse order."""

    def __init__(self, folder):
        self.folder, self._running = pathlib.Path(folder), []

    def start(self, *command):
        name = pathlib.Path(str(command[0])).name
        with open(self.folder / f"{name}.output", "ab") as output:
            words = [which(command[0]), *map(str, command[1:])]
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                       start_new_session=True)
        self._running.append(process)
        return process

    def wait(self, ready, what):
        deadline = time.monotonic() + SECONDS
        while not ready():
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._running):
                logs = "".join(f"\n{path.name}:\n{path.read_text()[-2000:]}"
                               for pattern in ("*.output", "*.log") for path in sorted(self.folder.glob(pattern)))
                raise TimeoutError(f"{what} does not serve:{logs}")
            time.sleep(0.05)

    def end(self):
        for process in reversed(self._running):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


SLURM = """\
ClusterName=ringwood
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=60
NodeName=n[0-1] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=4
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:4 State=UP
"""


@contextlib.contextmanager
def slurm(folder):
    """Two nodes, n0 and n1. Yields the variables by which Slurm's commands find them."""
    folder = pathlib.Path(folder)
    services = Services(folder)
    folder.chmod(0o755)
    (folder / "state").mkdir()
    port = free_ports(3)
    conf = folder / "slurm.conf"
    conf.write_text(SLURM.format(host=socket.gethostname().split(".")[0], folder=folder, port=port, first=port + 1,
                                 last=port + 2))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    variables = {"SLURM_CONF": str(conf)}
    os.environ.update(variables)
    try:
        services.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
                       f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log",
                       f"--seed-file={folder}/munge.seed")
        services.wait((folder / "munge.socket").exists, "munged")
        services.start("slurmctld", "-D", "-i", "-f", conf)
        for node in ("n0", "n1"):
            services.start("slurmd", "-D", "-N", node, "-f", conf)

        def idle():
            asked = subprocess.run(["sinfo", "-h", "-o", "%t %D"], capture_output=True, text=True)
            return asked.stdout.split() == ["idle", "2"]
        services.wait(idle, "Slurm")
        yield variables
    finally:
        services.end()
        del os.environ["SLURM_CONF"]


@contextlib.contextmanager
def sshd(folder):
    """On 127.0.0.1 and 127.0.0.2. Yields the remote shell."""
    folder = pathlib.Path(folder)
    services = Services(folder)
    port = free_ports(1)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    known = folder / "known_hosts"
    known.write_text("".join(f"[127.0.0.{host}]:{port} {(folder / 'host.pub').read_text()}" for host in (1, 2)))
    os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # sshd insists
    settings = {"AuthorizedKeysFile": folder / "user.pub", "StrictModes": "no", "UsePAM": "no", "PidFile": "none",
                "PermitRootLogin": "prohibit-password", "PasswordAuthentication": "no"}
    addresses = [word for host in (1, 2) for word in ("-o", f"ListenAddress=127.0.0.{host}:{port}")]
    try:
        services.start("sshd", "-D", "-e", "-f", "/dev/null", "-h", folder / "host", *addresses,
                       *(word for name, value in settings.items() for word in ("-o", f"{name}={value}")))

        def listens():
            with socket.socket() as asking:
                return asking.connect_ex(("127.0.0.2", port)) == 0
        services.wait(listens, "sshd")
        yield (f"ssh -F none -p {port} -i {folder}/user -o IdentitiesOnly=yes -o BatchMode=yes "
               f"-o UserKnownHostsFile={known} -o GlobalKnownHostsFile=none")
    finally:
        services.end()
