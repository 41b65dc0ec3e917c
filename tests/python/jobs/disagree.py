"""Rank 1 differs from the others in the way that argv names."""

import os
import sys

import numpy as np

import ringwood

how, odd = sys.argv[1], os.environ["RANK"] == "1"
if how == "world" and odd:
    os.environ["WORLD_SIZE"] = "3"
if how == "wire" and odd:
    os.environ["RINGWOOD_WIRE"] = "bf16"
tensors = {"weights": 101 if how == "shape" and odd else 100, "bias": 10}
names = list(reversed(tensors)) if how == "order" and odd else list(tensors)
if how == "fewer" and odd:
    names.remove("bias")
momentum = 0.8 if how == "momentum" and odd else 0.9
with ringwood.Session(momentum=momentum) as session:
    for name in names:
        session.register(name, np.zeros(tensors[name], np.float32))
    session.agree()
