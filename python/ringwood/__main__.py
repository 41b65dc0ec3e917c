"""`python -m ringwood` is the program `ringwood`, and so is the console script of the wheel."""

import os
import sys

from .errors import NotFoundError


def program_places():
    """The files tried, first match wins: as library.library_places, the program of the same build."""
    package = os.path.dirname(os.path.realpath(__file__))
    above = [package]
    while len(above) < 6:
        above.append(os.path.dirname(above[-1]))
    named = os.environ.get("RINGWOOD_LIBRARY")
    build = [os.path.dirname(os.path.dirname(os.path.abspath(named)))] if named else []
    places = [*build, os.path.join(above[2], "build", "release"), package,
              above[4], above[5]]  # the prefix: below it lib/ringwood/python or lib/TRIPLET/ringwood/python
    return [os.path.join(place, "bin", "ringwood") for place in places]


def main():
    places = program_places()
    program = next((path for path in places if os.path.isfile(path)), None)
    if program is None:
        failure = NotFoundError(f"the program ringwood was not found (looked at {', '.join(places)}). Build it with "
                                "`./dev build`")
        print(f"ringwood: {failure}", file=sys.stderr)
        return failure.exit_code
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
