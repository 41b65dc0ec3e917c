"""Rank 1 differs from the others in the way that argv names."""

import os
import sys

import numpy as np

import ringwood

how, odd = sys.argv[1], os.environ["RANK"] == "1"
if how == "world" and odd:
    os.environ["WORLD_SIZE"] = "3"
with ringwood.Session() as session:
    session.register("weights", np.zeros(101 if how == "shape" and odd else 100, np.float32))
    if how == "fewer" and odd:
        pass
    else:
        session.register("bias", np.zeros(10, np.float32))
    session.agree()
