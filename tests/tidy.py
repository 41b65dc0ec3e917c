"""The tree's rules as pure functions: a tree is {path: text}, a finding is a line that names the place.

tests/tidy_test.py runs every check on the tree as it is, and on a planted case that it must find.
"""

import collections
import os.path
import re

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_COLUMNS = 100
MAX_FOLDER_FILES = 40
CODE = (".h", ".hpp", ".cc", ".cu")


def rows(tree):
    """Room → rooms it may include, from the rows of CMakeLists.txt, in their order."""
    found = re.findall(r"^ringwood_folder\(([\w/]+)\s[\w\s]*\bDEPENDS([^)]*)\)", tree["CMakeLists.txt"], re.M)
    return {name: {name, *depends.split()} for name, depends in found}


def room_of(path, table):
    """The room that a file of the product lies in, None elsewhere. Parts of a room (its PARTS, and cuda/) belong to it."""
    while path := os.path.dirname(path):
        if path in table:
            return path
    return None


def code(tree, *suffixes):
    return {path: text for path, text in tree.items() if path.endswith(suffixes or CODE)}


def product(tree):
    table = rows(tree)
    return {path: text for path, text in code(tree).items() if room_of(path, table)}


def includes(text):
    return re.findall(r'^\s*#include "([^"]+)"', text, re.M)


def table_is_in_order(tree):
    table, order, below, found = rows(tree), [], {}, []
    for room, depends in table.items():
        order.append(room)
        found += [f"{room} depends on {other}, which does not stand above it"
                  for other in depends if other not in order]
        below[room] = depends.union(*(below.get(other, set()) for other in depends - {room}))
        sides = {other.split("/")[0] for other in below[room]} & {"client", "server"}
        if len(sides) == 2 and room.split("/")[0] not in ("measure", "cli"):
            found.append(f"{room} reaches client and server, which meet only in proto")
    for engine, other in (("dense", "sparse"), ("sparse", "dense")):
        if other in below.get(engine, ()):
            found.append(f"{engine} reaches {other}")
    return found


def includes_outside_the_table(tree):
    """A room includes itself and what its row names; tests and benchmarks of a folder what its rooms may."""
    table, found = rows(tree), []
    for path, text in code(tree).items():
        room, parts = room_of(path, table), path.split("/")
        if room:
            allowed = table[room]
        else:
            folder = parts[1] if parts[0] in ("tests", "bench") and len(parts) > 2 else parts[0]
            rooms = [name for name in table if name.split("/")[0] == folder]
            if not rooms:
                continue
            allowed = set().union(*(table[name] for name in rooms))
        for include in includes(text):
            target = "proto" if include.startswith(("ringwood/v1/", "etcd/")) else room_of(include, table)
            if target and target not in allowed:
                found.append(f"{path} includes {include}")
    return found


def long_files(tree):
    return [f"{path}: {count} lines" for path, text in code(tree, *CODE, ".py").items()
            if (count := len(text.splitlines())) > MAX_FILE_LINES]


def bodies(text):
    """(first line, lines) of every body that clang-format closes with a brace at column 0; tables are none."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if start is None and re.match(r"\S.*(?<!= )\{$", line):
            if not re.match(r"(namespace|class|struct|enum|union|extern|#|//|using)\b", line):
                start = number
        elif line.startswith("}"):
            if start is not None:
                yield start, number - start + 1
            start = None


def long_functions(tree):
    return [f"{path}:{first}: {lines} lines" for path, text in code(tree, ".cc", ".cu").items()
            if not path.startswith("tests/") for first, lines in bodies(text) if lines > MAX_FUNCTION_LINES]


def wide_lines(tree):
    return [f"{path}:{number}" for path, text in code(tree).items()
            for number, line in enumerate(text.splitlines(), 1)
            if len(line) > MAX_COLUMNS and "http" not in line and "#include" not in line]


def full_folders(tree):
    """A module's stub lies beside it and counts with it."""
    count = collections.Counter(os.path.dirname(path) for path in tree if not path.endswith((".pyi", ".typed")))
    return [f"{folder}: {files} files" for folder, files in count.items() if files > MAX_FOLDER_FILES]


def files_outside_the_build(tree):
    folders = {room.split("/")[0] for room in rows(tree)}
    return [path for path in tree if re.fullmatch(r"tests/.*_test\.cc|bench/.*_bench\.cc", path)
            and (path.count("/") != 2 or path.split("/")[1] not in folders)]


def files_nobody_needs(tree):
    """Product files that neither the library nor the program reaches.

    Both start from what users call: client/c, include and cli/main.cc. A file needs what it includes; a
    needed header needs its source, or the sources beside it that include it and have no header of their own."""
    table = rows(tree)
    files = {path: text for path, text in product(tree).items() if os.path.splitext(path)[0] not in NEEDED_OTHERWISE}
    beside = collections.defaultdict(list)
    for path, text in files.items():
        if path.endswith(".h"):
            continue
        stem = os.path.splitext(path)[0]
        headers = [stem + ".h"] if stem + ".h" in files else [
            include for include in includes(text)
            if include in files and room_of(include, table) == room_of(path, table)]
        # a variant, such as cuda/absent.cc
        variant = os.path.join(os.path.dirname(os.path.dirname(path)), os.path.basename(stem) + ".h")
        for header in headers + [variant]:
            beside[header].append(path)
    waiting = [path for path in files if path == "cli/main.cc" or path.startswith(("client/c/", "include/"))]
    needed = set(waiting)
    while waiting:
        path = waiting.pop()
        for other in [*includes(files[path]), *beside[path]]:
            if other in files and other not in needed:
                needed.add(other)
                waiting.append(other)
    return sorted(set(files) - needed)


# Linked into builds under ThreadSanitizer; and the transport of one process, on which the tests and
# benchmarks of all engines run.
NEEDED_OTHERWISE = {"base/tsan/synchronization", "transport/in_process"}


def types_that_stand_twice(tree):
    """Two types of one name and namespace in one program are undefined behaviour, and confuse readers."""
    places = collections.defaultdict(list)
    for path, text in product(tree).items():
        if not path.endswith(".h"):
            continue
        space = ""
        for namespace, name in re.findall(r"^namespace (\w+) \{|^(?:class|struct|enum class|union) (\w+)"
                                          r"(?: final)?(?: :[^{;]*)?\s*\{", text, re.M):
            space = namespace or space
            if name:
                places[f"{space}::{name}"].append(path)
    return [f"{name}: {', '.join(paths)}" for name, paths in places.items() if len(paths) > 1]


def vague_names(tree):
    """Names that say nothing."""
    return [path for path in code(tree, *CODE, ".py")
            if re.search(r"(manager|helper|util|common|impl)", os.path.basename(path))]


def prose(path, text):
    """(line, words) of the comments of code, or of a page's text outside its fenced blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if path.endswith(".md"):
            fenced ^= line.startswith("```")
            if not fenced:
                yield number, line
        elif found := re.search(r"(?:^|\s)//(.*)|^\s*/?\*(.*)|(?:^|\s)/\*(.*)", line):
            yield number, next(group for group in found.groups() if group is not None)


PATH = re.compile(r"(?<![\w./~$<>{}*…-])((?:[\w-]+/)*[\w-]+\.(?:h|hpp|cc|cu|py|md|svg|proto|cmake|txt))(?![\w/*])")


def paths_that_do_not_exist(tree):
    """In comments and pages: a path from the root, from the file's own folder, or the end of one path."""
    ends = collections.Counter()
    for path in tree:
        parts = path.split("/")
        ends.update("/".join(parts[i:]) for i in range(len(parts)))
    found = []
    for path, text in code(tree, *CODE, ".md").items():
        for number, words in prose(path, text):
            for name in PATH.findall(words):
                if os.path.basename(name) not in OTHERS_FILES and name not in ends:
                    found.append(f"{path}:{number}: {name}")
    return found


# What users and other projects have: no files of this tree.
OTHERS_FILES = {"train.py", "nccl.h", "sysexits.h", "FILE.svg", "NAME_fuzz.cc"}


def names_that_do_not_exist(tree):
    """In pages, between backquotes: types, functions, variables and flags that the code does not know."""
    known = "\n".join(text for path, text in tree.items() if not path.endswith((".md", ".svg", ".csv")))
    words = set(re.findall(r"[A-Za-z_]\w*", known)) | set(re.findall(r"--[a-z][\w-]+", known))
    pattern = re.compile(r"--[a-z][\w-]+|\b(?:[A-Z][a-z0-9]+){2,}\b|\bringwood_\w+\b|\bRINGWOOD_\w+\b|\bk[A-Z]\w+\b")
    found = []
    for path, text in code(tree, ".md").items():
        for number, line in prose(path, text):
            for quoted in re.findall(r"`([^`]+)`", line):
                found += [f"{path}:{number}: {name}" for name in pattern.findall(quoted)
                          if name not in words and name not in OTHERS_NAMES]
    return found


# Of ssh, etcd and PyTorch, and examples of names: the pages have them, the code does not.
OTHERS_NAMES = {"--auto-compaction-retention", "BatchMode", "DistributedSampler", "EveryRankEndsWithTheSum", "ringwood_F"}


def programs_without_interpreter(programs):
    """Of files that may be executed: those that a shell would take for its own script."""
    return [path for path, text in programs.items() if not text.startswith("#!")]


def headers_without_docstring(tree):
    """Every header says first what it is; in include/ every declaration has a comment of its own or of its group."""
    found = [path for path, text in product(tree).items()
             if path.endswith((".h", ".hpp")) and not re.match(r"//|/\*", text)]
    for path, text in tree.items():
        if not re.fullmatch(r"include/\w+\.h", path):
            continue
        lines = text.splitlines()
        for number, line in enumerate(lines):
            if not line.startswith("RINGWOOD_EXPORT") or line.rstrip().endswith("*/"):
                continue
            above = number - 1  # declarations that follow each other without a blank line share a comment
            while above >= 0 and lines[above].strip() and not lines[above].rstrip().endswith("*/"):
                above -= 1
            if above < 0 or not lines[above].strip():
                found.append(f"{path}:{number + 1}: {line}")
    return found
