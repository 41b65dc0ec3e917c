"""Style as a test: the include table, the size limits, and that nothing escapes the build."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_COLUMNS = 100


def tracked(*patterns):
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
                           cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    return [ROOT / name for name in names if (ROOT / name).exists()]


def table():
    """Room → rooms it may include, from the rows of CMakeLists.txt, in their order."""
    rows = re.findall(r"^ringwood_folder\(([\w/]+)\s+DEPENDS([^)]*)\)", (ROOT / "CMakeLists.txt").read_text(), re.M)
    return {name: {name, *depends.split()} for name, depends in rows}


def room_of(path, rows):
    """The room that a file of the product lies in, None elsewhere. Variants (cuda/, ucx/, grpc/) belong to theirs."""
    for folder in pathlib.PurePath(path).parents:
        if str(folder) in rows:
            return str(folder)
    return None


def folder_of(path):
    parts = path.relative_to(ROOT).parts
    return parts[1] if parts[0] in ("tests", "bench") and len(parts) > 2 else parts[0]


def test_the_table_has_no_cycles_and_keeps_the_two_engines_apart():
    rows = table()
    order = list(rows)
    for name, depends in rows.items():
        assert all(order.index(other) <= order.index(name) for other in depends), name
    below = {}
    for name, depends in rows.items():
        below[name] = depends.union(*(below[other] for other in depends - {name}))
    assert "sparse" not in below["dense"] and "dense" not in below["sparse"]
    for name in rows:
        sides = {side for side in ("client", "server") for other in below[name] if other.split("/")[0] == side}
        assert len(sides) < 2 or name in ("measure", "cli"), name


def test_every_include_is_in_the_table():
    rows, wrong = table(), []
    for path in tracked("*.h", "*.hpp", "*.cc", "*.cu"):
        inside = path.relative_to(ROOT)
        room = room_of(inside, rows)
        if room:
            allowed = rows[room]
        else:  # what tests and benchmarks of a folder include: its rooms and theirs
            rooms = [name for name in rows if name.split("/")[0] == folder_of(path)]
            allowed = set().union(*(rows[name] for name in rooms))
            if not rooms:
                continue
        for include in re.findall(r'^\s*#include "([^"]+)"', path.read_text(), re.M):
            target = "proto" if include.startswith("ringwood/v1/") else room_of(include, rows)
            if target and target not in allowed:
                wrong.append(f"{inside} includes {include}")
    assert not wrong, "\n".join(wrong)


def test_files_stay_under_the_limit():
    long = [f"{path.relative_to(ROOT)}: {count} lines" for path in tracked("*.h", "*.cc", "*.cu", "*.py")
            if (count := len(path.read_text().splitlines())) > MAX_FILE_LINES]
    assert not long, "\n".join(long)


def functions(text):
    """(first line, lines) of every body that clang-format closes with a brace at column 0."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if start is None and line and not line[0].isspace() and line.rstrip().endswith("{"):
            if not re.match(r"(namespace|class|struct|enum|union|extern|#|//|using)\b", line):
                start = number
        elif line.startswith("}"):
            if start is not None:
                yield start, number - start + 1
            start = None


def test_functions_fit_a_screen():
    long = [f"{path.relative_to(ROOT)}:{first}: {lines} lines" for path in tracked("*.cc", "*.cu")
            if "tests" not in path.relative_to(ROOT).parts
            for first, lines in functions(path.read_text()) if lines > MAX_FUNCTION_LINES]
    assert not long, "\n".join(long)


def test_lines_fit_the_column_limit():
    wide = [f"{path.relative_to(ROOT)}:{number}" for path in tracked("*.h", "*.cc", "*.cu")
            for number, line in enumerate(path.read_text().splitlines(), 1)
            if len(line) > MAX_COLUMNS and "http" not in line and "#include" not in line]
    assert not wide, "\n".join(wide)


def test_every_test_and_benchmark_file_is_built():
    folders = {name.split("/")[0] for name in table()}
    stray = [str(path.relative_to(ROOT)) for path in tracked("tests/*_test.cc", "bench/*_bench.cc")
             if folder_of(path) not in folders or len(path.relative_to(ROOT).parts) != 3]
    assert not stray, stray


def test_a_type_name_stands_once():
    """Two types of one name and namespace in one program are undefined behaviour, and confuse readers."""
    places = {}
    for path in tracked("*.h"):
        if not room_of(path.relative_to(ROOT), table()):
            continue
        space = ""
        for namespace, name in re.findall(r"^namespace (\w+) \{|^(?:class|struct|enum class|union) (\w+)"
                                          r"(?: final)?(?: :[^{;]*)?\s*\{", path.read_text(), re.M):
            space = namespace or space
            if name:
                places.setdefault(f"{space}::{name}", []).append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert not twice, twice


def test_one_word_per_idea():
    """Names that say nothing, kept out of file names."""
    vague = [str(path.relative_to(ROOT)) for path in tracked("*.h", "*.cc", "*.py")
             if re.search(r"(manager|helper|util|common|impl)", path.stem)]
    assert not vague, vague
