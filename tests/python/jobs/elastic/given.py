"""Rank 1 of an elastic job dies once and comes back. What the other gave it, and what came, is held until the next step at
most: MARK."""

import os
import pathlib
import signal
import sys
import weakref

import numpy as np

import ringwood

mark = pathlib.Path(sys.argv[1])
gradient = np.ones(10, np.float32)
with ringwood.Session() as session:
    session.register("w", gradient)
    session.state_on_request()
    last = sys.maxsize
    while session.step < last:
        if session.slot == 1 and session.step == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        session.ready("w")
        try:
            result = session.finish_step()
        except ringwood.RefusedError:
            assert session.state_wanted
            state = np.full(1000, 7, np.uint8)
            given = weakref.ref(state)
            session.give_state({"state": state})
            del state
            result = session.finish_step()
            assert given() is None, "what was given is held after the step that copied it"
            last = result.step + 3
        if result.received:
            assert session.received("state") == bytes([7]) * 1000
            last = result.step + 3
        elif session.slot == 1 and last < sys.maxsize:
            try:
                session.received("state")
                raise SystemExit("what came is held after the next step")
            except ringwood.NotFoundError:
                pass
    print(f"rank {session.slot} holds nothing", flush=True)
