"""What `cmake --install` gives: the examples build against it in a clean directory, and run."""

import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD, JOBS, ROOT, run


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    place = tmp_path_factory.mktemp("installed")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", place], check=True, capture_output=True)
    return place


def libraries(prefix):
    """The folder below `prefix` that libringwood.so lies in: lib, or lib/x86_64-linux-gnu."""
    return next(prefix.glob("lib*/**/libringwood.so")).parent


def run_installed(prefix, *command, ranks=2, **changes):
    ended = run([prefix / "bin" / "ringwood", "run", "-np", ranks, "--", *command], **changes)
    assert ended.code == 0, ended.output
    return ended.output


@pytest.mark.parametrize("header", sorted(path.name for path in (ROOT / "include").iterdir()))
def test_each_header_stands_alone_without_a_warning(header, prefix, tmp_path):
    languages = ["c++17"] if header.endswith(".hpp") else ["c99", "c11", "c++17"]
    for language in languages:
        source = tmp_path / ("alone.cc" if "+" in language else "alone.c")
        source.write_text(f"#include <{header}>\n#include <ringwood.h>\n"
                          "int main(void) { return RINGWOOD_SHARED - 1; }\n")
        ended = run(["cc", f"-std={language}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                     f"-I{prefix / 'include'}", source])
        assert ended.code == 0, ended.output


def test_a_c_trainer_builds_with_pkg_config(prefix, tmp_path):
    """By the line in the file's own first comment."""
    shutil.copy(ROOT / "examples" / "minimal.c", tmp_path)
    words = (ROOT / "examples" / "minimal.c").read_text().split("*/")[0].replace("\n *", "\n")
    line = re.search(r"cc minimal\.c(?:.*\\\n)*.*", words).group()
    packages = libraries(prefix) / "pkgconfig"
    ended = run(["sh", "-ec", f"cd {tmp_path}\n{line} -Wall -Werror"], PKG_CONFIG_PATH=str(packages))
    assert ended.code == 0, ended.output
    output = run_installed(prefix, tmp_path / "minimal")
    assert "rank 1 of 2: mean squared error 0.0" in output, output


def build_cpp(prefix, source, folder):
    """The program."""
    ended = run(["c++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror",
                 "-fsanitize=leak", f"-I{prefix / 'include'}", JOBS / "cpp" / source, libraries(prefix) / "libringwood.so",
                 f"-Wl,-rpath,{libraries(prefix)}", "-o", folder / "program"])
    assert ended.code == 0, ended.output
    return folder / "program"


def test_a_cpp_trainer_builds_without_warnings_and_leaks_nothing(prefix, tmp_path):
    run_installed(prefix, build_cpp(prefix, "every_call.cc", tmp_path))


def test_a_cpp_trainer_replays_what_was_logged_after_its_checkpoint(prefix, tmp_path):
    program = build_cpp(prefix, "replayed.cc", tmp_path)
    command = [prefix / "bin" / "ringwood", "run", "-np", 2, "--store", tmp_path / "store", "--update-log"]
    died = run([*command, "--", program])
    assert died.code == 75, died.output
    again = run([*command, "--resume", "--", program])
    assert again.code == 0, again.output
    assert again.output.count("step 6: weight 21") == 2, again.output
    assert {f"logs {which}" for which in (1, 2)} == set(re.findall(r"logs \d", again.output)), again.output


def test_a_libtorch_trainer_builds_with_find_package(prefix, tmp_path):
    shutil.copytree(ROOT / "examples" / "libtorch", tmp_path / "source")
    torch = run([sys.executable, "-c", "import torch; print(torch.utils.cmake_prefix_path)"]).output.strip()
    ended = run(["cmake", "-S", tmp_path / "source", "-B", tmp_path / "build",
                 f"-DCMAKE_PREFIX_PATH={prefix};{torch}"])
    assert ended.code == 0, ended.output
    ended = run(["cmake", "--build", tmp_path / "build"], timeout=900)
    assert ended.code == 0, ended.output
    output = run_installed(prefix, tmp_path / "build" / "train", 60, ranks=3)
    assert "3 ranks: loss" in output, output


@pytest.mark.parametrize(("wanted", "found"), [("0.0.9", True), ("9.0", False)])
def test_find_package_takes_a_newer_library_of_the_same_soname(wanted, found, prefix, tmp_path):
    """As docs/compatibility.md promises to programs that are compiled already."""
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(user LANGUAGES C)\n"
                                             f"find_package(Ringwood {wanted} REQUIRED)\n")
    ended = run(["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"])
    assert (ended.code == 0) == found, ended.output


def test_the_installed_python_package_finds_its_library(prefix):
    package = libraries(prefix) / "ringwood" / "python"
    run_installed(prefix, "env", "-u", "RINGWOOD_LIBRARY", f"PYTHONPATH={package}", sys.executable,
                  JOBS / "dense.py")
    alone = run(["env", "-u", "RINGWOOD_LIBRARY", f"PYTHONPATH={package}", sys.executable, JOBS / "dense.py"])
    assert alone.code == 0 and "so it trains alone" in alone.output, alone.output  # by the prefix's own program
