"""A text as numbers, one a letter: what the examples that learn a text read."""

import pathlib
import sys

import torch

CONFIGURATION_ERROR = 78  # sysexits.h EX_CONFIG: a restart will not help


def read(path):
    """(the text as numbers, how many different letters it has); ends the program where there is no such text."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as failure:
        print(f"{pathlib.Path(sys.argv[0]).stem}: {failure}; name another text with --text", file=sys.stderr)
        sys.exit(CONFIGURATION_ERROR)
    letters = sorted(set(text))
    place = {letter: i for i, letter in enumerate(letters)}
    return torch.tensor([place[letter] for letter in text]), len(letters)
