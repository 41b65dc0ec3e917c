"""The weights of a checkpoint that `ringwood checkpoint import` made of another program's file."""

import json
import sys

import torch

from .errors import InvalidError, NotFoundError
from .memory import DTYPES
from .state import fill

HEADER = "imported/safetensors"  # the item with the header of the file


def imported_header(session):
    """None: ranks saved the checkpoint."""
    try:
        return json.loads(session.restore(HEADER))
    except NotFoundError:
        return None


def load_imported(session, model, header):
    state = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        state[name] = torch.empty(entry["shape"], dtype=getattr(torch, DTYPES[entry["dtype"]]), device="cpu")
        fill(state[name], session.restore(f"model/{name}"))
    try:
        model.load_state_dict(state)
    except RuntimeError as failure:
        raise InvalidError(f"the imported weights are not this model's: {failure}") from failure
    if session.rank == 0:
        sys.stderr.write(f"I rank 0: {len(state)} imported tensors are the model's; optimizer, random generators and "
                         "position in the data begin anew\n")
