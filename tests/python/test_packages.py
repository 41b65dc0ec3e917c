"""What packages are made of: the installed tree, the wheel's files before other libraries are added, manual and
completion. `./dev package --check` installs the packages in clean systems."""

import ast
import base64
import csv
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, PROGRAM, ROOT, run

sys.path.insert(0, str(ROOT / "package"))
import aarch64  # noqa: E402
import licences  # noqa: E402
import ringwood_deb as deb  # noqa: E402
import ringwood_wheel as wheel  # noqa: E402

PACKAGE = ROOT / "python" / "ringwood"
EXAMPLES = ROOT / "examples"
VERSION = re.search(r"project\(ringwood VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    place = tmp_path_factory.mktemp("packages") / "usr"
    subprocess.run(["cmake", "--install", BUILD, "--prefix", place], check=True, capture_output=True)
    return place


@pytest.fixture(scope="module")
def unpacked(installed, tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    wheel.fill(place, installed, wheel.version_of(BUILD))
    return place


def commands():
    """Command -> (names of its flags, words of those that take words), from the reference."""
    found = {}
    for section in (ROOT / "docs" / "reference.md").read_text().split("\n### ringwood ")[1:]:
        rows = re.findall(r"^\| `(-[^`]*)` \| ([^|]*) \|", section, re.M)
        found[section.split("\n")[0]] = {tuple(names.split(", ")): re.findall(r"`([^`]*)`", values)
                                         for names, values in rows}
    return found


def ask_bash(script, *lines):
    """What bash offers for each line, whose last word is being typed."""
    asked = "".join(f"COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _ringwood; "
                    'echo "${COMPREPLY[*]}"\n' for line in lines)
    ended = subprocess.run(["bash", "--norc", "-c", f"source {script}\n{asked}"], capture_output=True, text=True)
    assert ended.returncode == 0 and not ended.stderr, ended.stderr
    return [line.split() for line in ended.stdout.splitlines()]


def test_the_manual_has_every_flag(installed):
    page = (installed / "share" / "man" / "man1" / "ringwood.1").read_text().replace("\\-", "-")
    for command, flags in commands().items():
        section = page.split(f'.SS "ringwood {command}"\n')[1].split("\n.SS ")[0]
        for names in flags:
            for name in names:
                assert f"\\fB{name}\\fR" in section, f"{name} of ringwood {command}"


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_troff_has_nothing_against_the_manual(installed):
    page = installed / "share" / "man" / "man1" / "ringwood.1"
    ended = subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-z", page], capture_output=True, text=True)
    assert ended.returncode == 0 and not ended.stderr, ended.stderr


def test_bash_completes_every_flag_and_its_words(installed):
    script = installed / "share" / "bash-completion" / "completions" / "ringwood"
    lines, expected = [], []
    for command, flags in commands().items():
        lines.append(f"ringwood {command} -")
        expected.append({name for names in flags for name in names})
        for names, words in flags.items():
            if len(words) > 1:
                lines.append(f"ringwood {command} {names[-1]} = ''")
                expected.append(set(words))
    for line, offered, wanted in zip(lines, ask_bash(script, *lines), expected, strict=True):
        assert wanted <= set(offered), line


def test_bash_completes_commands_and_leaves_the_ranks_program_alone(installed, tmp_path):
    script = installed / "share" / "bash-completion" / "completions" / "ringwood"
    (tmp_path / "train.py").touch()
    offered = ask_bash(script, "ringwood ''", "ringwood checkpoint ''", "ringwood run --wire b",
                       f"ringwood run -- python {tmp_path}/tra")
    assert {"run", "server", "completion"} <= set(offered[0]) and "reference" not in offered[0]
    assert {"list", "export"} <= set(offered[1])
    assert offered[2] == ["bf16"]
    assert offered[3] == [f"{tmp_path}/train.py"]


def test_bash_offers_names_with_spaces_whole_and_folders_alone(installed, tmp_path):
    script = installed / "share" / "bash-completion" / "completions" / "ringwood"
    (tmp_path / "a file").touch()
    (tmp_path / "a folder").mkdir()
    for flag, names in {"pull --out": {"a file", "a folder"}, "pull --identity": {"a folder"}, "pull --store": {"a folder"}}.items():
        typed = f"COMP_WORDS=(ringwood {flag} {tmp_path}/); COMP_CWORD=3; _ringwood; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        ended = subprocess.run(["bash", "--norc", "-c", f"source {script}\n{typed}"], capture_output=True, text=True)
        assert set(ended.stdout.splitlines()) == {f"{tmp_path}/{name}" for name in names}, (flag, ended)


# Types each line in an interactive zsh, then Tab, and prints what stands there. Arguments: the folder, the lines.
ZSH = r"""
zmodload zsh/zpty
zpty shell TERM=dumb zsh -f -i
tell() { zpty -w shell "$1"; }
tell "PS1=; unsetopt prompt_cr prompt_sp; fpath=($1 \$fpath); autoload -Uz compinit; compinit -D -u"
tell "bindkey '^I' complete-word; dump() { print -r -- \"<\$BUFFER>\"; BUFFER=; }; zle -N dump; bindkey '^X' dump"
tell "echo re''ady"
zpty -r shell text "*ready*"
for line in "${@[2,-1]}"; do
  zpty -n -w shell "$line"$'\t\x18'
  zpty -r shell text "*<*>*"
  print -r -- "${${text##*<}%%>*}"
done
zpty -d shell
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_zsh_completes_commands_flags_and_their_words(installed, tmp_path):
    script = tmp_path / "type.zsh"
    script.write_text(ZSH)
    typed = {"ringwood checkp": "ringwood checkpoint", "ringwood checkpoint exp": "ringwood checkpoint export",
             "ringwood run --sparse-co": "ringwood run --sparse-codec=", "ringwood run --wire=b": "ringwood run --wire=bf16",
             "ringwood run --resume=a": "ringwood run --resume=auto", "ringwood server -- printen": "ringwood server -- printenv"}
    ended = subprocess.run(["zsh", "-f", script, installed / "share" / "zsh" / "vendor-completions", *typed],
                           capture_output=True, text=True, timeout=600)
    assert [line.strip() for line in ended.stdout.splitlines()] == list(typed.values()), ended.stdout + ended.stderr


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_reads_its_completion(installed):
    script = installed / "share" / "fish" / "vendor_completions.d" / "ringwood.fish"
    ended = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C 'ringwood run --wi'"],
                           capture_output=True, text=True)
    assert ended.returncode == 0 and "--wire" in ended.stdout, ended.stderr


def test_no_folder_is_installed_for_nothing(installed):
    assert not [path for path in installed.rglob("*") if path.is_dir() and not any(path.iterdir())]


def test_the_wheel_has_the_whole_package(unpacked):
    files = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    modules = {f"ringwood/{path.relative_to(PACKAGE).as_posix()}" for path in PACKAGE.rglob("*")
               if path.suffix in (".py", ".pyi", ".typed")}
    examples = {f"ringwood/examples/{path.relative_to(EXAMPLES).as_posix()}" for path in EXAMPLES.rglob("*.py")}
    assert modules | examples <= files
    assert {name for name in files if name.startswith("ringwood/")} == modules | examples | {
        "ringwood/libringwood.so", "ringwood/bin/ringwood"}
    facts = f"ringwood-{VERSION}.dist-info"
    assert {f"{facts}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt")} <= files
    assert f"ringwood-{VERSION}.data/data/share/man/man1/ringwood.1" in files
    metadata = (unpacked / facts / "METADATA").read_text()
    assert f"\nVersion: {VERSION}\n" in metadata and f"\nLicense: {wheel.LICENCE}\n" in metadata


def test_the_wheels_record_is_true(unpacked):
    rows = list(csv.reader((unpacked / f"ringwood-{VERSION}.dist-info" / "RECORD").read_text().splitlines()))
    listed = {name for name, _, _ in rows}
    assert listed == {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    for name, digest, size in rows:
        if digest:
            content = (unpacked / name).read_bytes()
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={sha256}", len(content)), name


def test_the_package_finds_its_program_and_its_library(unpacked):
    """As pip leaves it: nothing of this tree is on the path, and two ranks train."""
    program = unpacked / "ringwood" / "bin" / "ringwood"
    assert os.access(program, os.X_OK)
    alone = ["env", "-u", "RINGWOOD_LIBRARY", f"PYTHONPATH={unpacked}", f"PATH={os.environ['PATH']}"]
    said = run([*alone, sys.executable, "-m", "ringwood", "--version"])
    assert said.code == 0 and said.output == run([program, "--version"]).output
    ended = run([*alone, sys.executable, "-m", "ringwood", "run", "-np", 2, "--", sys.executable, "-m",
                 "ringwood.examples.minimal"])
    assert ended.code == 0 and "rank 1 of 2: mean squared error 0.0" in ended.output, ended.output


def test_the_source_tree_is_a_package_too():
    ended = run([sys.executable, "-m", "ringwood", "--version"])
    assert ended.output == run([PROGRAM, "--version"]).output
    ended = run([sys.executable, "-m", "ringwood.examples.fashion_mnist", "--help"])
    assert ended.code == 0 and "--density" in ended.output, ended.output


def test_the_deb_puts_the_package_where_debians_python_looks(installed, tmp_path):
    top = tmp_path / "top"
    shutil.copytree(installed, top / "usr", symlinks=True)
    deb.place(top, VERSION)
    package = top / "usr" / "lib" / "python3" / "dist-packages" / "ringwood"
    assert package.is_symlink() and (package / "__init__.py").is_file()
    said = run(["env", "-u", "RINGWOOD_LIBRARY", f"PYTHONPATH={package.parent}", sys.executable, "-c",
                "import ringwood; print(ringwood.__version__)"])
    assert said.output.strip() == VERSION
    assert (top / "usr" / "share" / "man" / "man1" / "ringwood.1.gz").is_file()
    examples = top / "usr" / "share" / "doc" / "ringwood" / "examples"
    for name in ("minimal.c", "pull.c", "libtorch/CMakeLists.txt", "grafana/ringwood.json",
                 "systemd/ringwood-server.service", "kubernetes/job.yaml"):
        assert (examples / name).is_file(), name


def test_a_package_built_against_the_deb_takes_a_newer_one(tmp_path):
    deb.write_control(tmp_path / "control", "1.2.3")
    assert (tmp_path / "control" / "shlibs").read_text() == "libringwood 0 ringwood (>= 1.2.3)\n"


def test_the_licences_of_the_libraries_that_come_along_come_too(tmp_path):
    used = re.findall(r"=> (\S+/lib(?:grpc\+\+|ucs|rocksdb)\.so\S*)", subprocess.run(
        ["ldd", PROGRAM], check=True, capture_output=True, text=True).stdout)
    named = [pathlib.Path(re.sub(r"\.so", "-1a2b3c4d.so", os.path.basename(os.path.realpath(path)))) for path in used]
    licences.bring(tmp_path / "licences", named)  # as auditwheel names them
    brought = {path.name: path.read_text() for path in (tmp_path / "licences").iterdir()}
    assert any(name.startswith("libgrpc++") and "grpc" in text.lower() for name, text in brought.items()), brought.keys()
    assert any(name.startswith("libucx") and "UCX" in text for name, text in brought.items()), brought.keys()
    assert "Apache License" in brought["Apache-2.0"] and "nlohmann" in brought["nlohmann-json3-dev"].lower()


def test_examples_import_each_other_as_the_package_has_them():
    names = {path.stem for path in EXAMPLES.rglob("*.py")}
    for path in EXAMPLES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not names & set(modules), (path.name, modules)


def test_the_page_names_every_example():
    page = (ROOT / "docs" / "python.md").read_text().split("\n## Examples\n")[1]
    parts = {"letters.py", "history.py"}  # of others
    files = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".c")} - parts
    assert not [name for name in files if f"`examples/{name}`" not in page]


def test_the_wheel_of_the_other_machine_has_a_folder_of_its_own():
    """pip is told to install build/packages/ringwood-*.whl, and refuses all if one is for another machine."""
    folder = re.search(r"package/aarch64\.py \S+ (\S+)", (ROOT / "dev").read_text())[1]
    assert folder != "build/packages" and f"`{folder}`" in (ROOT / "docs" / "install.md").read_text()


def test_the_other_machine_gets_the_libraries_that_a_build_needs():
    assert {"libgrpc++-dev", "librocksdb-dev", "libucx-dev", "libhwy-dev", "protobuf-compiler-grpc"} <= set(aarch64.libraries())


@pytest.mark.parametrize("way", aarch64.WAYS)
def test_the_job_whose_bits_are_compared_has_them_again(way):
    first, again = (re.findall(r"rank (\d on \w+: \w{64})", run([PROGRAM, "run", "-np", "2", "--", sys.executable,
                                                                   ROOT / "package/same_bits.py", *way]).output)
                    for _ in range(2))
    assert len(first) == 2 and sorted(first) == sorted(again)
