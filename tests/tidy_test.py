"""Style as a test: every rule of tests/tidy.py holds for this tree, and finds what is planted to break it."""

import inspect
import pathlib
import subprocess

import pytest

import tidy

ROOT = pathlib.Path(__file__).resolve().parent.parent

TABLE = {"CMakeLists.txt": """
ringwood_folder(base     DEPENDS)
ringwood_folder(dense    DEPENDS base)
ringwood_folder(sparse   DEPENDS base)
ringwood_folder(server   DEPENDS base)
ringwood_folder(client/c DEPENDS base dense)
ringwood_folder(client   DEPENDS base client/c)
"""}

# rule: (a tree that breaks it, what the finding names), (a tree that keeps it)
PLANTED = {
    tidy.table_is_in_order: [
        ({"CMakeLists.txt": "ringwood_folder(a DEPENDS b)\nringwood_folder(b DEPENDS a)\n"}, "a depends on b"),
        ({"CMakeLists.txt": "ringwood_folder(sparse DEPENDS)\nringwood_folder(dense DEPENDS sparse)\n"}, "dense reaches"),
        ({"CMakeLists.txt": "ringwood_folder(server DEPENDS)\nringwood_folder(client DEPENDS server)\n"}, "meet only"),
    ],
    tidy.includes_outside_the_table: [
        ({**TABLE, "dense/x.cc": '#include "sparse/y.h"\n'}, "dense/x.cc includes sparse/y.h"),
        ({**TABLE, "client/c/x.cc": '#include "client/y.h"\n'}, "client/c/x.cc includes client/y.h"),
        ({**TABLE, "tests/dense/x_test.cc": '#include "client/y.h"\n'}, "x_test.cc includes client/y.h"),
    ],
    tidy.long_files: [({"a.cc": "x;\n" * 501}, "a.cc: 501 lines")],
    tidy.long_functions: [({"a.cc": "void F() {\n" + "  x();\n" * 60 + "}\n"}, "a.cc:1: 62 lines")],
    tidy.wide_lines: [({"a.h": "// " + "x" * 98 + "\n"}, "a.h:1")],
    tidy.full_folders: [({f"dense/f{i}.h": "" for i in range(41)}, "dense: 41 files")],
    tidy.files_outside_the_build: [({**TABLE, "tests/nowhere/a_test.cc": ""}, "tests/nowhere/a_test.cc"),
                                   ({**TABLE, "tests/a_test.cc": ""}, "tests/a_test.cc")],
    tidy.files_nobody_needs: [
        ({**TABLE, "client/c/x.cc": '#include "dense/used.h"\n', "dense/used.h": "", "dense/used.cc": "",
          "dense/unused.h": "", "dense/unused.cc": '#include "dense/unused.h"\n'}, "dense/unused.cc")],
    tidy.types_that_stand_twice: [
        ({**TABLE, "dense/a.h": "namespace r {\nstruct Lane {\n", "base/b.h": "namespace r {\nclass Lane {\n"}, "r::Lane")],
    tidy.vague_names: [({"base/string_util.h": ""}, "string_util")],
    tidy.paths_that_do_not_exist: [
        ({"dense/a.h": "// see dense/gone.h\n"}, "a.h:1: dense/gone.h"),
        ({"include/a.h": "/* One.\n * See gone.md. */\n"}, "a.h:2: gone.md"),
        ({"docs/a.md": "Held by `tests/gone_test.cc`.\n"}, "a.md:1: tests/gone_test.cc")],
    tidy.names_that_do_not_exist: [
        ({"a.cc": "class RealName {};", "docs/a.md": "`RealName` and `GoneName`\n"}, "a.md:1: GoneName"),
        ({"a.cc": '"--real"', "docs/a.md": "`run --real --gone 3`\n"}, "a.md:1: --gone")],
    tidy.headers_without_docstring: [
        ({**TABLE, "dense/a.h": "#pragma once\n"}, "dense/a.h"),
        ({**TABLE, "include/a.h": "/* A. */\n\nRINGWOOD_EXPORT int f(void);\n"}, "include/a.h:3")],
}


@pytest.fixture(scope="module")
def tree():
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"],
                           cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    texts = {}
    for name in filter(None, names):
        if (ROOT / name).is_file():
            texts[name] = (ROOT / name).read_text(errors="replace")
    return texts


@pytest.mark.parametrize("rule", PLANTED, ids=lambda rule: rule.__name__)
def test_the_tree_keeps(rule, tree):
    found = rule(tree)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("rule, broken, named",
                         [(rule, broken, named) for rule, cases in PLANTED.items() for broken, named in cases],
                         ids=lambda value: getattr(value, "__name__", None))
def test_finds_what_is_planted(rule, broken, named):
    found = rule(broken)
    assert any(named in line for line in found), found


def test_programs_name_their_interpreter():
    staged = subprocess.run(["git", "ls-files", "--stage"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    programs = [line.split("\t")[1] for line in staged.splitlines() if line.startswith("100755")]
    assert not tidy.programs_without_interpreter({name: (ROOT / name).read_text() for name in programs})
    assert tidy.programs_without_interpreter({"a.py": '"""Doc."""', "b.py": "#!/usr/bin/env python3"}) == ["a.py"]


def test_every_rule_has_a_planted_case():
    rules = {value for value in vars(tidy).values() if inspect.isfunction(value)
             and list(inspect.signature(value).parameters) == ["tree"]}
    assert rules - set(PLANTED) == {tidy.rows, tidy.product}
