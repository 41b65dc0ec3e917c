"""Factors of Horovod's reductions."""

import torch


def scale(tensor, factor):
    """In place. Integers in double, cut off, as Horovod does."""
    if factor == 1.0:
        return tensor
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor.mul_(factor)
    return tensor.copy_(tensor.double().mul_(factor))


def scale_whole_average(total, ranks, factor):
    """The same of a sum of integers that becomes an average."""
    if factor == 1.0:
        return total.copy_(torch.div(total, ranks, rounding_mode="trunc"))
    return scale(total, factor / ranks)
