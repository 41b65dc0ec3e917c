"""Plans, profile, timeline and flight record as arguments of the session; argv names the directory."""

import os
import pathlib
import sys

import numpy as np

import ringwood

place = pathlib.Path(sys.argv[1])
rank = int(os.environ["RANK"])


def train(**arguments):
    with ringwood.Session(**arguments) as session:
        gradient = np.ones(1000, np.float32)
        session.register("weights", gradient)
        for _ in range(4):
            session.ready("weights")
            session.finish_step()
        return session.plan


made = train(save_plan=place / "plan.json", profile=str(place / "profile.csv"), adapt=True,
             timeline=place / f"{rank}.json", flight_record=place / f"{rank}.flight")
assert train(freeze_plan=place / "plan.json") == made
try:
    train(freeze_plan=place / "plan.json", adapt=True)
    raise AssertionError("a frozen plan cannot adapt")
except ringwood.InvalidError as error:
    assert "frozen" in str(error), error
