"""Every command that README and docs print for one machine is run as printed, from a clean clone; links in
them lead somewhere.

A fenced block without a language is one shell script; a line that needs what this machine does not have
stands in NOT_HERE with its reason. README's Python block is the train.py of all of them. The clone is the
tree as git would commit it; compiler output comes from ccache where there is one.
"""

import contextlib
import functools
import gzip
import math
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
NETNS = "bench/netns.sh"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
IMAGES = {"data": 4000, "more-data": 12000}  # of each file; more for a job that others read from while it runs
BLOCK_SECONDS = 900  # a block on a loaded machine, the product's build included
END_SECONDS = 60  # what a block has ended with `kill` is given to end

NOT_HERE = [  # (a pattern of the command line, why it is not run here)
    (r"^\./dev test\b", "this is part of it"),
    (r"-H \w+:\d", "needs more than one host"),
    (r"^torchrun |-- (srun|mpirun|torchrun|python -m ringwood\.examples\.ray_actors) |--rsh",
     "needs another launcher; tests/python/test_clusters.py runs all of them"),
    (r"^bench/gpu/run", "needs a GPU; tests/python/test_device.py runs the kit's parts without one"),
    (r"^\./dev package|^docker ", "needs PyPI, or a container engine; tests/python/test_packages.py checks packages"),
    (r"^(sudo |pip install |python3 -m venv |\. env/)|-m ringwood\.examples\.|^ringwood --version",
     "what was installed is run by ./dev package --check"),
    (r"^build/release/bin/far_hosts|^kill %1 +# the hosts", "hosts for a measurement, which is not run here either"),
    (r"^bench/replay/measure\.py", "a measurement of many minutes, which shares its cores with nobody"),
]


def documents():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def fenced(path):
    """(first line's number, language, text) of every fenced block."""
    for match in re.finditer(r"^```(\S*)[^\n]*\n(.*?)^```$", path.read_text(), re.M | re.S):
        yield path.read_text()[:match.start()].count("\n") + 2, match[1], match[2]


def commands(text):
    """The block's command lines, continuation lines joined."""
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


@functools.cache
def hosts_can_be_made():
    """Root, namespaces and the htb queue are there. Where hosts of its name exist already, they are somebody's."""
    if os.geteuid() != 0 or pathlib.Path("/sys/class/net/rwbenchbr").exists():
        return False
    mine = f"rwd{os.getpid() % 10000}"
    made = subprocess.run([ROOT / NETNS, "up", "1", "1gbit", mine], capture_output=True)
    subprocess.run([ROOT / NETNS, "down", "1", mine], capture_output=True)
    return made.returncode == 0


def reason_not_here(line):
    return next((reason for pattern, reason in NOT_HERE if re.search(pattern, line)), None)


def blocks():
    for path in documents():
        for number, language, text in fenced(path):
            lines = [line for line in commands(text) if not reason_not_here(line)]
            if language in ("", "sh") and lines:
                yield pytest.param(lines, id=f"{path.name}:{number}")


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """The tree that git would commit, with a virtual environment that has this one's packages."""
    top = tmp_path_factory.mktemp("clone") / "ringwood"
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).exists():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, top / name, follow_symlinks=False)
    subprocess.run(["git", "init", "-q", top], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", top / ".venv"], check=True)
    here = next(path for path in sys.path if path.endswith("site-packages"))
    packages = next((top / ".venv").glob("lib/python3*/site-packages"))
    (packages / "packages_of_the_tests.pth").write_text(here + "\n")
    script = next(text for _, language, text in fenced(ROOT / "README.md") if language == "python")
    (top / "train.py").write_text(script)
    if DATA.exists():
        for folder, images in IMAGES.items():
            small_data(top.parent / folder, images)
    return top


def small_data(folder, images):
    """The first images of Fashion-MNIST, where it is installed: a demo shows as much with a part of them."""
    folder.mkdir()
    for path in DATA.glob("*.gz"):
        content = gzip.decompress(path.read_bytes())
        head = 4 + 4 * content[3]
        all_images, *shape = struct.unpack(f">{content[3]}I", content[4:head])
        few = min(all_images, images)
        (folder / path.name).write_bytes(gzip.compress(
            content[:4] + struct.pack(f">{content[3]}I", few, *shape) + content[head:head + few * math.prod(shape)], 1))


def run(lines, top):
    path = f"{top}/build/release/bin:{top}/.venv/bin:{os.environ['PATH']}"
    data = "more-data" if any("ringwood pull" in line for line in lines) else "data"
    mine = {name: value for name, value in os.environ.items()
            if not name.startswith(("RINGWOOD_", "PYTHONPATH")) and name not in ("RANK", "WORLD_SIZE")}
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(["bash", "-eux"], cwd=top, text=True, start_new_session=True,
                                   env=mine | {"PATH": path, "OMP_NUM_THREADS": "1",
                                               "PYTHONPATH": f"{top}/tests/startup",
                                               "FASHION_MNIST": f"{top}/../{data}"},
                                   stdin=subprocess.PIPE, stdout=printed, stderr=subprocess.STDOUT)
        wrong = None
        try:
            process.communicate("\n".join(lines) + "\n", timeout=BLOCK_SECONDS)
            if process.returncode != 0:
                wrong = f"ended with {process.returncode}"
            elif not ends(process.pid):
                wrong = "left processes that it started and did not end"
        except subprocess.TimeoutExpired:
            wrong = f"still running after {BLOCK_SECONDS} s"
        if wrong:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            printed.seek(0)
            pytest.fail(f"{wrong}:\n{printed.read()[-4000:]}")


def ends(group):
    """Whether the processes of the group end by themselves."""
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def anchors(path):
    """Names that a link into the page may give, as GitHub makes them from its headings."""
    for heading in re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        yield re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def test_links_lead_to_files_and_headings():
    broken = []
    for path in [*documents(), ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            if link.startswith("http"):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{path.name}: {link}")
    assert not broken, "\n".join(broken)


def test_no_sentence_becomes_a_list():
    """Lists have "*"; a line that begins with a minus or plus is one, too, where a formula was broken before its sign."""
    broken = []
    for path in [*documents(), ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S)
        broken += [f"{path.name}: {line}" for line in re.findall(r"^ {0,3}[-+] .*", text, re.M)]
    assert not broken, "\n".join(broken)


def test_the_documents_show_commands():
    assert sum(1 for _ in blocks()) >= 5


@pytest.mark.parametrize("lines", list(blocks()))
def test_a_block_runs_as_printed(lines, clone):
    if not (clone / "build" / "release" / "bin" / "ringwood").exists():
        run(["./dev build"], clone)
    makes_hosts = any(line.startswith(NETNS) for line in lines)
    if makes_hosts and not hosts_can_be_made():
        lines = [line for line in lines if not line.startswith(NETNS)]
        makes_hosts = False
    try:
        run(lines, clone)
    finally:
        if makes_hosts:  # also where the block failed before it came to that
            subprocess.run([clone / NETNS, "down", "4"], check=True)
