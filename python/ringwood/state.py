"""Nested state (dicts, lists, tensors, numbers, texts) as a JSON skeleton and named tensors.

No pickle: what comes back from a store or from another rank can only be data.
"""

import collections
import json

import numpy as np
import torch

from .content import refuse_sparse
from .errors import CorruptError, InvalidError


NAME_BYTES = 255  # of an item, as the library takes it


def flatten(tree, *root):
    """(skeleton as bytes, name -> tensor in the order in which it names them). A tensor's name is its path, as
    in "model/fc.weight", below that of `root`. The same tree gives the same bytes."""
    tensors = {}

    def walk(value, *path):
        if torch.is_tensor(value):
            refuse_sparse(_shown(path), value)
            name = _unused("/".join(map(str, path)), tensors)
            tensors[name] = value
            return {"tensor": [len(tensors) - 1, str(value.dtype).removeprefix("torch."), list(value.shape), name]}
        if isinstance(value, dict):  # a Counter, such as a MultiStepLR's milestones, has methods of its own
            return {"counter" if isinstance(value, collections.Counter) else "dict": [[_key(key, path), walk(inner, *path, key)] for key, inner in value.items()]}
        if isinstance(value, (list, tuple)):
            return {type(value).__name__ if type(value) in (list, tuple) else "tuple":
                    [walk(inner, *path, i) for i, inner in enumerate(value)]}
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"value": value}
        raise InvalidError(f"{_shown(path)} is a {type(value).__name__}; state is made of dicts, lists, "
                           "tensors, numbers and texts")

    return json.dumps(walk(tree, *root)).encode(), tensors


def _unused(name, taken):
    """A number where the path is no name of an item: too long, not printable, or another tensor's too."""
    if name and name.isprintable() and len(name.encode()) <= NAME_BYTES and name not in taken:
        return name
    return f"tensor/{len(taken)}"


def _key(key, path):
    if isinstance(key, (str, int)) and not isinstance(key, bool):
        return key
    raise InvalidError(f"{_shown(path)} has a key of type {type(key).__name__}; keys are texts or integers")


def _shown(path):
    return "/".join(map(str, ("state", *path)))


def unflatten(skeleton, tensors):
    """Rebuilds the tree with these tensors, listed in the skeleton's order, in it."""
    def build(node):
        if "tensor" in node:
            return tensors[node["tensor"][0]]
        if "counter" in node:
            return collections.Counter({key: build(inner) for key, inner in node["counter"]})
        if "dict" in node:
            return {key: build(inner) for key, inner in node["dict"]}
        if "list" in node:
            return [build(inner) for inner in node["list"]]
        if "tuple" in node:
            return tuple(build(inner) for inner in node["tuple"])
        return node["value"]

    try:
        return build(json.loads(skeleton))
    except (ValueError, KeyError, IndexError, TypeError) as failure:
        raise CorruptError(f"the saved state cannot be read: {failure}") from failure


def gather_tensors(skeleton):
    """Name -> empty tensor of the type and shape that the skeleton names, in its order. A number instead of
    the name in a skeleton of an older version."""
    found = {}

    def walk(node):
        if "tensor" in node:
            number, kind, shape, *name = node["tensor"]
            found[name[0] if name else number] = torch.empty(shape, dtype=getattr(torch, kind), device="cpu")
        for name in ("list", "tuple"):
            for inner in node.get(name, ()):
                walk(inner)
        for name in ("dict", "counter"):
            for _, inner in node.get(name, ()):
                walk(inner)

    walk(json.loads(skeleton))
    return found


def state_items(tree, skeleton_name, *root):
    """Name -> bytes or tensor, of a tree as flatten takes it."""
    skeleton, tensors = flatten(tree, *root)
    return {skeleton_name: skeleton, **tensors}


def state_of_items(read, skeleton_name):
    """The inverse of state_items. `read`: name -> bytes; a number in the place of a name that an older version
    did not give."""
    skeleton = read(skeleton_name)
    tensors = gather_tensors(skeleton)
    for name, tensor in tensors.items():
        if tensor.numel():
            fill(tensor, read(name))
    return unflatten(skeleton, list(tensors.values()))


def fill(tensor, content):
    if tensor.numel():
        tensor.copy_(torch.frombuffer(bytearray(content), dtype=tensor.dtype).view(tensor.shape))
