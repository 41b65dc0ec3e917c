"""Steps with a ring and a tree; each rank writes what finish_step returned, summed, to FOLDER/RANK.json, and
goes on with collectives until FOLDER/go is there.

argv: FOLDER STEPS [SLOW: this rank loads its data slowly]
"""

import json
import pathlib
import sys
import time

import numpy as np

import ringwood

folder, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
slow = int(sys.argv[3]) if len(sys.argv) > 3 else None

with ringwood.Session() as session:
    dense, sparse = np.ones(5000, np.float32), np.arange(50_000, dtype=np.float32)
    session.register("dense", dense, route="dense")
    session.register("sparse", sparse, route="sparse", density=0.01)
    sums = {"steps": 0, "ring": 0, "tree": 0}
    for step in range(steps):
        if session.rank == slow:
            time.sleep(0.05)
        session.begin_step(1)
        session.ready("sparse")
        session.ready("dense")
        result = session.finish_step()
        sums["steps"] += 1
        sums["ring"] += result.dense_bytes
        sums["tree"] += result.sparse_bytes
    (folder / f"{session.rank}.part").write_text(json.dumps(sums))
    (folder / f"{session.rank}.part").rename(folder / f"{session.rank}.json")
    while not session.allreduce(np.array([(folder / "go").exists()], np.float32))[0]:
        time.sleep(0.05)
