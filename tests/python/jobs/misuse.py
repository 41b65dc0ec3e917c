"""Wrong use gives a typed error and leaves the session usable."""

import os
import threading

import numpy as np
import torch
from refusals import refused

import ringwood


with ringwood.Session() as session:
    good = np.zeros(100, np.float32)
    session.register("good", good)
    refused(ringwood.ExistsError, ["good", "twice"], session.register, "good", good)
    refused(ringwood.InvalidError, ["float64"], session.register, "a", np.zeros(3))
    refused(ringwood.InvalidError, ["contiguous"], session.register, "a",
            np.zeros((4, 4), np.float32)[:, ::2])
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    refused(ringwood.InvalidError, ["read-only"], session.register, "a", frozen)
    refused(ringwood.InvalidError, ["NumPy"], session.register, "a", [1.0, 2.0])
    refused(ringwood.InvalidError, ["route"], session.register, "a", good.copy(), route="bus")
    refused(ringwood.InvalidError, ["density"], session.register, "a", good.copy(), density=1.5)
    refused(ringwood.NotFoundError, ["nobody", "good"], session.ready, "nobody")
    refused(ringwood.InvalidError, ["50", "100"], session.rebind, "good", np.zeros(50, np.float32))
    refused(ringwood.InvalidError, ["NumPy", "Tensor"], session.rebind, "good", type("Tensor", (), {})())
    refused(ringwood.InvalidError, ["median"], session.allreduce, good, op="median")
    moved = torch.zeros(50)
    session.register("moved", moved)
    moved.data = torch.zeros(50)
    refused(ringwood.InvalidError, ["moved", "rebind"], session.ready, "moved")
    moved.untyped_storage().resize_(0)
    refused(ringwood.InvalidError, ["moved", "freed"], session.ready, "moved")
    refused(ringwood.InvalidError, ["moved", "freed"], session.rebind, "moved", moved)
    moved.untyped_storage().resize_(200)
    session.rebind("moved", moved.zero_())
    session.rebind("moved", None)
    for call in (lambda: session.ready("moved"), session.replay):
        refused(ringwood.InvalidError, ["moved", "freed"], call)
    session.rebind("moved", moved)
    refused(ringwood.RingwoodError, ["good"], session.finish_step)  # a step without its gradients

    refused(ringwood.ExistsError, [f"rank {session.rank}"], ringwood.Session)  # a second one of this rank
    hook = threading.Thread(target=refused, args=(ringwood.ExistsError, ["good"], session.register, "good", good))
    hook.start()
    hook.join()

    session.begin_step(1)
    child = os.fork()
    if child == 0:  # what a DataLoader's worker would do by mistake
        code = session._library.ready(session._handle, 0)
        try:
            session.finish_step()
        except ringwood.ForkedError:
            os._exit(0 if code == ringwood.ForkedError.code else 3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    good[:] = session.rank
    session.ready("good")
    session.ready("moved")
    refused(ringwood.RefusedError, ["moved", "in use"], session.rebind, "moved", None)
    session.finish_step()
    assert good[0] == (session.world - 1) / 2
    whole = torch.zeros(150)
    for name, place in ("good", whole[:100]), ("moved", whole[99:149]):
        session.rebind(name, place)
        session.ready(name)
    refused(ringwood.InvalidError, ["good", "moved", "same memory"], session.finish_step)
session.close()
session.rebind("moved", None)  # the memory of a session that is closed is nobody's business
refused(ringwood.RefusedError, ["closed"], session.begin_step)
