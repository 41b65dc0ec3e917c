"""Environment variables for the time of a call."""

import contextlib
import os

# The options of a session that say who the process is, and the variables by which a launcher does.
IDENTITY = {"coordinator": "RINGWOOD_COORDINATOR", "rank": "RANK", "world": "WORLD_SIZE"}


def identity_of(given):
    """Variable -> what `given`, a session's options by keyword, has in its place."""
    return {variable: str(given[keyword]) for keyword, variable in IDENTITY.items() if given.get(keyword) is not None}


@contextlib.contextmanager
def lent(variables):
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
