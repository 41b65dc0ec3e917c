"""Nested state (dicts, lists, tensors, numbers, texts) as a JSON skeleton and a list of tensors.

No pickle: what comes back from a store or from another rank can only be data.
"""

import json

import torch

from .errors import CorruptError, InvalidError


def flatten(tree):
    """(skeleton as bytes, tensors in the order in which it names them). The same tree gives the same
    bytes."""
    tensors = []

    def walk(value, path):
        if torch.is_tensor(value):
            tensors.append(value)
            return {"tensor": [len(tensors) - 1, str(value.dtype).removeprefix("torch."),
                               list(value.shape)]}
        if isinstance(value, dict):
            return {"dict": [[_key(key, path), walk(inner, f"{path}.{key}")]
                             for key, inner in value.items()]}
        if isinstance(value, (list, tuple)):
            return {type(value).__name__ if type(value) in (list, tuple) else "tuple":
                    [walk(inner, f"{path}[{i}]") for i, inner in enumerate(value)]}
        if value is None or isinstance(value, (bool, int, float, str)):
            return {"value": value}
        raise InvalidError(f"state{path} is a {type(value).__name__}; state is made of dicts, lists, "
                           "tensors, numbers and texts")

    return json.dumps(walk(tree, "")).encode(), tensors


def _key(key, path):
    if isinstance(key, (str, int)) and not isinstance(key, bool):
        return key
    raise InvalidError(f"state{path} has a key of type {type(key).__name__}; keys are texts or integers")


def unflatten(skeleton, tensors):
    """Rebuilds the tree with these tensors in it."""
    def build(node):
        if "tensor" in node:
            return tensors[node["tensor"][0]]
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
    """Empty tensors of the types and shapes that the skeleton names, in its order."""
    found = []

    def walk(node):
        if "tensor" in node:
            _, kind, shape = node["tensor"]
            found.append(torch.empty(shape, dtype=getattr(torch, kind)))
        for name in ("list", "tuple"):
            for inner in node.get(name, ()):
                walk(inner)
        for _, inner in node.get("dict", ()):
            walk(inner)

    walk(json.loads(skeleton))
    return found
