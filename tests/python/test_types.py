"""The package's types: its stubs have what the modules have, and a strict checker accepts what users write."""

import ast
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys

import pytest

from conftest import LIBRARY, ROOT, environment

PACKAGE = ROOT / "python" / "ringwood"
MYPY = os.environ.get("RINGWOOD_MYPY") or shutil.which("mypy", path=os.path.dirname(sys.executable))
STUBS = sorted(".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in PACKAGE.glob("**/*.pyi"))

CHECKER = """\
[mypy]
strict = True
python_version = 3.12
[mypy-torch.*]  # its own types take minutes to read
follow_imports = skip
[mypy-ringwood.*]
disallow_subclassing_any = False
"""


@pytest.fixture(scope="module", autouse=True)
def package():
    sys.path.insert(0, str(PACKAGE.parent))


def module_of(stub):
    return importlib.import_module("ringwood" if stub == "__init__" else f"ringwood.{stub}")


def definitions(stub):
    """(name, AST) of the functions and classes at the top of a stub."""
    tree = ast.parse((PACKAGE / (stub.replace(".", "/") + ".pyi")).read_text())
    return [(node.name, node) for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")]


def parameters_of_stub(node):
    """[(name, whether it has a default)]"""
    arguments = node.args.posonlyargs + node.args.args
    without = len(arguments) - len(node.args.defaults)
    listed = [(argument.arg, index >= without) for index, argument in enumerate(arguments)]
    return listed + [(argument.arg, default is not None)
                     for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults)]


def parameters_of(function):
    return [(parameter.name, parameter.default is not parameter.empty)
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)]


def is_property(node):
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def compare(where, node, found):
    if isinstance(found, property):
        assert is_property(node), f"{where} is a property"
    elif where != "session.Session.__init__":
        assert parameters_of_stub(node) == parameters_of(found), where


@pytest.mark.parametrize("stub", STUBS)
def test_a_stub_has_what_the_module_has(stub):
    module = module_of(stub)
    for name, node in definitions(stub):
        found = getattr(module, name)
        if isinstance(node, ast.FunctionDef):
            compare(f"{stub}.{name}", node, found)
            continue
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        for method, each in methods.items():
            if method in vars(found):
                compare(f"{stub}.{name}.{method}", each, vars(found)[method])
        if stub == "job":
            continue
        said = {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)} | set(methods)
        public = {method for method in vars(found) if not method.startswith("_")}
        missing = public - said - {"code", "exit_code"}
        # what its base class declares already
        missing -= {method for method in missing if any(hasattr(base, method) for base in found.__mro__[1:])}
        if name in ("DistributedOptimizer", "LocalSteps"):
            missing -= {"param_groups", "state", "defaults"}  # attributes of every torch optimizer
        assert not missing, f"{stub}.pyi lacks {sorted(missing)} of {name}"


@pytest.mark.parametrize("stub", ["__init__", "torch"])
def test_every_public_name_is_typed(stub):
    names = {name for name, _ in definitions(stub)}
    for node in ast.parse((PACKAGE / (stub.replace(".", "/") + ".pyi")).read_text()).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.asname}
    assert set(module_of(stub).__all__) <= names


def test_the_session_has_the_librarys_options(monkeypatch):
    monkeypatch.setenv("RINGWOOD_LIBRARY", str(LIBRARY))
    session = next(node for name, node in definitions("session") if name == "Session")
    init = next(each for each in session.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    typed = {name for name, _ in parameters_of_stub(init)} - {"self"}
    assert typed == set(module_of("library").load().keywords)


def test_an_option_of_few_words_is_typed_with_all_of_them():
    session = next(node for name, node in definitions("session") if name == "Session")
    init = next(each for each in session.body if isinstance(each, ast.FunctionDef) and each.name == "__init__")
    typed = {each.arg: {word.value for word in ast.walk(each.annotation) if isinstance(word, ast.Constant) and word.value}
             for each in init.args.kwonlyargs}
    rows = [line.split(" | ") for line in (ROOT / "docs" / "reference.md").read_text().splitlines()]
    words = {row[2].strip("`"): set(re.findall(r"`(\w+)`", row[5])) for row in rows if len(row) == 8}
    for name in ("wire", "transport", "sparse_merge", "sparse_method"):
        assert typed[name] == words[name], name


@pytest.mark.skipif(MYPY is None, reason="needs mypy, or RINGWOOD_MYPY, which names it: ./dev package --check has one")
def test_a_strict_checker_accepts_what_users_write(tmp_path):
    (tmp_path / "mypy.ini").write_text(CHECKER)

    def check(script):
        return subprocess.run([MYPY, "--python-executable", sys.executable, "--config-file", "mypy.ini",
                               "--cache-dir", "cache", script], cwd=tmp_path, capture_output=True, text=True,
                              env=environment(MYPYPATH=str(PACKAGE.parent)))

    ended = check(ROOT / "tests" / "python" / "typed.py")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (tmp_path / "wrong.py").write_text('import ringwood\nringwood.Session(wire="fp31")\n')
    ended = check("wrong.py")
    assert ended.returncode == 1 and '"wire"' in ended.stdout, ended.stdout + ended.stderr
