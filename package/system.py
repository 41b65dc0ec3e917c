"""A Debian in a folder, whose commands run in namespaces of their own, so that mounts and processes end with them. As
root; needs debootstrap and the network."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

SECONDS = 1800  # a command at most: fetching and unpacking a system
USER = "trainer"

# Mounts what a process expects, in a mount namespace that ends with the command. UCX reads /sys. The words in front of
# -- are folders of this machine that stand there by the same names.
ENTER = """while [ "$1" != -- ]; do mkdir -p "$0$1"; mount --bind "$1" "$0$1"; shift; done; shift
mount -t proc proc "$0/proc" && mount -t sysfs -o ro sysfs "$0/sys" && mount --rbind /dev "$0/dev" \
&& mount -t tmpfs tmpfs "$0/dev/shm" && exec chroot "$0" "$@" """


class Failed(Exception):
    """A command did not do what it should; the text has its output."""


def call(*command, **more):
    words = [str(word) for word in command]
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           timeout=SECONDS, **more)
    if ended.returncode:
        raise Failed(f"{' '.join(words)} ended with {ended.returncode}:\n{ended.stdout[-4000:]}")
    return ended.stdout


def mirror():
    """Where this machine's own apt takes Debian from."""
    lines = call("apt-get", "indextargets", "--format", "$(LABEL) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
    found = re.findall(r"^Debian main (\S+)$", lines, re.M)
    if not found:
        raise Failed("apt has no source of Debian's main component: `apt-get update` first")
    return found[0]


class System:
    """A Debian in a folder: of this machine's architecture, or of one that it emulates."""

    def __init__(self, release, place, architecture=None, shared=()):
        self.release, self.place, self.architecture, self.shared = release, place, architecture, shared

    def make(self):
        other = [f"--arch={self.architecture}"] if self.architecture else []
        call("unshare", "--mount", "--pid", "--fork", "--kill-child", "debootstrap", "--variant=minbase", *other,
             self.release, self.place, mirror())
        (self.place / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")  # no service starts
        (self.place / "usr/sbin/policy-rc.d").chmod(0o755)
        self.run("apt-get", "update", "-q")
        self.install("python3", "python3-venv", "python3-numpy")
        self.run("useradd", "--create-home", "--shell", "/bin/bash", USER)
        return self

    def copy(self, place):
        """The same as it is now, for a test of its own."""
        call("cp", "--archive", "--reflink=auto", self.place, place)
        return System(self.release, place, self.architecture, self.shared)

    def command(self, *words):
        """The words of this machine that run `words` there; the process stays the caller's child."""
        return ["unshare", "--mount", "sh", "-ec", ENTER, str(self.place), *map(str, self.shared), "--", *words]

    def run(self, *command, user=None):
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--reset-env"] if user else []
        return call("unshare", "--pid", "--fork", "--kill-child", *self.command(
            "env", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", *as_user, *command))

    def user(self, script):
        return self.run("sh", "-ec", f"cd; {script}", user=USER)

    def install(self, *packages):
        self.run("apt-get", "install", "-y", "-q", "--no-install-recommends", *packages)

    def give(self, *files):
        """Into the user's home."""
        home = self.place / "home" / USER
        for file in files:
            shutil.copy2(file, home)
            os.chmod(home / pathlib.Path(file).name, 0o644)

    def python(self):
        return self.run("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2], end='')")


def download(python, directory, *packages, platforms=()):
    """Wheels for that Python, by this machine's own pip and its index; False where there are none."""
    others = [word for platform in platforms for word in ("--platform", platform)]
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--only-binary=:all:",
               "--python-version", python, *others, "-d", str(directory), *packages]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS).returncode == 0
