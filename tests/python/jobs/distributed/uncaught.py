"""Rank 1 dies, and nobody catches what that makes of the others' call."""

import os
import signal

import torch
import torch.distributed as dist

import ringwood.torch  # noqa: F401 - the backend

dist.init_process_group("ringwood")
if dist.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(torch.ones(10))
