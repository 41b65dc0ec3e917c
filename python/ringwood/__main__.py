"""`python -m ringwood` is the program `ringwood`, and so is the console script of the wheel."""

import os
import sys

from .errors import NotFoundError
from .library import find_program


def main():
    try:
        program = find_program()
    except NotFoundError as failure:
        print(f"ringwood: {failure}", file=sys.stderr)
        return failure.exit_code
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
