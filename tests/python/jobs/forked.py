"""Ranks that Python's multiprocessing starts. argv: how, and what rank 1 does after its third step: "returns" (so do all),
"raises", "exits", or "spawned", under torch's multiprocessing. None of them closes its session."""

import multiprocessing
import os
import sys

import numpy as np


def train(rank, does):
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    import ringwood
    session = ringwood.Session()
    gradient = np.ones(10, np.float32)
    session.register("w", gradient)
    for _ in range(3):
        session.begin_step()
        session.ready("w")
        session.finish_step()
    if does != "returns" and rank == 1:
        sys.exit(3) if does == "exits" else int("no number")
    if does != "returns":
        session.begin_step()
        session.ready("w")
        session.finish_step()
    _kept.append(session)


_kept = []  # else it would be closed where nobody has it any more

if __name__ == "__main__":
    how, does = sys.argv[1:]
    if does == "spawned":
        import torch.multiprocessing
        torch.multiprocessing.start_processes(train, (does,), nprocs=2, start_method=how)
    started = [multiprocessing.get_context(how).Process(target=train, args=(rank, does)) for rank in range(2)]
    for each in started:
        each.start()
    for each in started:
        each.join()
