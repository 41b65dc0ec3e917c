"""A text as numbers, one a letter: what the examples that learn a text read."""

import pathlib
import sys

import torch

CONFIGURATION_ERROR = 78  # sysexits.h EX_CONFIG: a restart will not help


def stop(sentence):
    print(f"{pathlib.Path(sys.argv[0]).stem}: {sentence}", file=sys.stderr)
    sys.exit(CONFIGURATION_ERROR)


def read(path, least=1):
    """(the text as numbers, how many different letters it has); ends the program where there is no such text, or it has
    fewer than so many letters."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as failure:
        stop(f"{failure}; name another text with --text")
    except UnicodeDecodeError:
        stop(f"{path} is no text in UTF-8; name another one with --text")
    if len(text) < least:
        stop(f"{path} has {len(text)} letters, and windows of this length need {least}: name a longer text with --text, "
             "or give a shorter --window")
    letters = sorted(set(text))
    place = {letter: i for i, letter in enumerate(letters)}
    return torch.tensor([place[letter] for letter in text]), len(letters)
