"""What a reduction does, by Horovod's names."""

import enum

from torch._C._distributed_c10d import ReduceOp

from ..errors import InvalidError, RefusedError


class Operation(enum.Enum):
    """What an all-reduce does."""
    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


Average, Sum, Adasum, Min, Max, Product = Operation
REDUCE_OPS = {Average: ReduceOp.AVG, Sum: ReduceOp.SUM, Min: ReduceOp.MIN, Max: ReduceOp.MAX, Product: ReduceOp.PRODUCT}


def operation_of(average, op):
    """`average`: True, False, or None where it is not given."""
    if average is not None:
        if op is not None:
            raise InvalidError("give op, or average, which is its former name, and not both")
        return Average if average else Sum
    op = Average if op is None else op
    if op is Adasum:
        raise RefusedError("hvd.Adasum is not in ringwood.horovod: use op=hvd.Average, and scale the learning rate")
    return op
