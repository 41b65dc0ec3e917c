"""The items of a checkpoint as the C interface takes them: a name, bytes, and whose they are."""

import ctypes
from ctypes import c_uint64

from ..library import SCOPES, Item
from ..memory import bytes_of, type_of


def items_of(**scopes):
    """(an array of library.Item, what to keep alive while it is read) of scope=(name -> bytes, array or tensor)."""
    listed, owners = [], []
    for scope, items in scopes.items():
        for name, value in items.items():
            pointer, size, owner = bytes_of(name, value)
            dtype, lengths = type_of(value)
            shape = (c_uint64 * len(lengths))(*lengths)
            owners += owner, shape
            listed.append(Item(ctypes.sizeof(Item), name.encode(), pointer, size, SCOPES[scope],
                               dtype and dtype.encode(), shape, len(shape)))
    return (Item * len(listed))(*listed), owners
