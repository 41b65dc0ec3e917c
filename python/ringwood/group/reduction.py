"""Element types and operations that torch.distributed asks for, as the library numbers them."""

from typing import NamedTuple

import torch
from torch._C._distributed_c10d import ReduceOp

from ..errors import InvalidError
from ..library import ELEMENT_TYPES, OPERATIONS
from .tensors import BYTE

_KINDS = {getattr(torch, name): number for name, number in ELEMENT_TYPES.items()}
WIDTHS = {number: dtype.itemsize for dtype, number in _KINDS.items()}  # bytes by element type
_OPERATIONS = ((ReduceOp.SUM, "sum"), (ReduceOp.AVG, "average"), (ReduceOp.MAX, "max"), (ReduceOp.MIN, "min"),
               (ReduceOp.PRODUCT, "product"))
_WHOLE = (torch.int32, torch.int64)
_OF_BOOL = {"sum": "max", "max": "max", "product": "min", "min": "min"}  # or, and


class Reduction(NamedTuple):
    kind: int          # the element type, as the library numbers it
    op: int            # the operation, likewise
    divided: int = 0   # 1: an average of whole numbers; the library sums, and the sum is divided here


def reduction_of(what, op, dtype):
    name = next((name for known, name in _OPERATIONS if op == known), None)
    if dtype is torch.bool:
        if name not in _OF_BOOL:
            raise InvalidError(f"{what}: {_name_of(op)} of bool; there are {', '.join(_OF_BOOL)}")
        return Reduction(ELEMENT_TYPES["uint8"], OPERATIONS[_OF_BOOL[name]])
    if name is None:
        raise InvalidError(f"{what}: {_name_of(op)} is not done by the backend ringwood; it knows "
                           f"{', '.join(name for _, name in _OPERATIONS)}")
    if dtype not in _KINDS:
        raise InvalidError(f"{what}: {dtype} is not reduced by the backend ringwood; it knows "
                           f"{', '.join(ELEMENT_TYPES)}: convert the tensor first")
    if name == "average" and dtype in _WHOLE:
        return Reduction(_KINDS[dtype], OPERATIONS["sum"], 1)
    return Reduction(_KINDS[dtype], OPERATIONS[name])


def kind_of(what, *tensors):
    """The element type of what is moved, so that ranks whose types differ hear of it: the library compares the types of
    what is sent and awaited. Of a type that it has not, the bytes are moved."""
    return _KINDS.get(dtype_of(what, *tensors), BYTE)


def dtype_of(what, *tensors):
    """The one that all have; None without tensors."""
    dtypes = {tensor.dtype for tensor in tensors}
    if len(dtypes) > 1:
        raise InvalidError(f"{what}: tensors of {' and '.join(sorted(map(str, dtypes)))} in one call: convert them to one "
                           "type")
    return dtypes.pop() if dtypes else None


def _name_of(op):
    return str(getattr(op, "op", op)).rsplit(".", 1)[-1]
