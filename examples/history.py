"""A line for each event of a training process, for who checks afterwards what was committed."""

import hashlib
import json
import os
import time


def digest_of(model):
    digest = hashlib.blake2b(digest_size=8)
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def path_of(file, rank):
    """FILE.RANK.PID; None without a file."""
    return file and f"{file}.{rank}.{os.getpid()}"


def taken(result, rank, began, passed, samples):
    """What a step of the sample cursor has in the history. `began`: the epoch in which it began."""
    return {"began": began, "pass": passed, "samples": samples.tolist() if rank in result.contributors else []}


class History:
    """JSON objects, each one write: a kill tears the last line at most. Made when all is loaded, before the session is
    opened. `path`: of this process alone, see path_of; None: nothing is written."""

    def __init__(self, path):
        self._file = open(path, "ab", buffering=0) if path else None
        self._session = None
        self.write("start")

    def opened(self, session, **more):
        self._session = session
        rank = int(os.environ.get("RANK", session.rank))  # as it was started
        self.write("open", rank=rank, pid=os.getpid(), epoch=session.epoch, step=session.step,
                   world=session.world, resumed=session.resumed, **more)

    def write(self, event, **fields):
        if self._file:
            self._file.write(json.dumps({"event": event, "time": time.monotonic(), **fields}).encode() + b"\n")

    def step(self, model, result, **more):
        if self._file:
            self.write("step", **{"step": result.step, "epoch": self._session.epoch, "world": len(result.members),
                                  "again": result.exchanged_again, "received": int(result.received),
                                  "digest": digest_of(model), "total": int(result.total_weight), **more})
