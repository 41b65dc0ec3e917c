"""A plugin for several processes of pytest that share the files: each takes the next one that none has taken.

    python -m pytest -p tests.sharing --taken DIRECTORY tests

The directory, empty at first, has a file for each that is taken.
"""

import itertools
import pathlib


def pytest_addoption(parser):
    parser.addoption("--taken", metavar="DIRECTORY", type=pathlib.Path, required=True)


def take(path, taken):
    try:
        (taken / str(path).replace("/", "_")).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def pytest_runtestloop(session):
    if session.testsfailed or session.config.option.collectonly:
        return None  # pytest's own loop says what could not be collected
    for path, items in itertools.groupby(session.items, key=lambda item: item.path):
        if not take(path, session.config.option.taken):
            continue
        for item, following in itertools.pairwise([*items, None]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:  # --exitfirst, --maxfail
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    return True
