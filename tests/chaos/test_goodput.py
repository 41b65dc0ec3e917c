"""A short day of faults at random instants, also one within another; `./dev chaos goodput` has the long one. And what
the figure is made of."""

import random

import check
import goodput
from test_chaos import run


def test_a_job_of_many_overlapping_faults_keeps_its_guarantees():
    said = run("goodput", "--ranks", "8", "--minutes", "0.3", "--faults", "6", "--failure-timeout", "3")
    assert "of the undisturbed" in said and "| kill | 3 |" in said, said


def stepped(step, time, epoch=1, contributors=4, received=0):
    return {"event": "step", "time": time, "step": step, "epoch": epoch, "contributors": contributors,
            "received": received}


def job():
    """Four ranks of which two write; rank 1 is away from 2.0 s to 4.0 s."""
    opened = {"event": "open", "time": 0.0, "epoch": 1, "step": 0, "world": 4, "resumed": False}
    first = [stepped(1, 1.0), stepped(2, 2.0), stepped(3, 3.5, 2, 3), stepped(4, 4.0, 2, 3), stepped(5, 5.0, 3)]
    second = [*first[:2], stepped(4, 4.1, 2, 3, 1), stepped(5, 5.1, 3)]
    return check.Job([[{**opened, "rank": 0}, *first], [{**opened, "rank": 1}, *second]])


def test_a_step_counts_by_who_contributed_to_it():
    assert goodput.rates(job(), 0.0, 2.0, 4) == (1.0, 1.0)
    assert goodput.rates(job(), 2.0, 4.0, 4) == (0.75, 1.0)


def test_a_pause_ends_with_the_next_epochs_first_step_of_those_that_stayed():
    assert goodput.pauses(job(), [("stop", 2.5), ("kill", 4.2), ("link", 6.0)]) == {
        "stop": [1.0], "kill": [5.1 - 4.2], "link": [None]}


def test_a_schedule_has_its_share_of_each_kind_in_order_and_the_same_again():
    full = goodput.schedule(random.Random(1), 62, 1800, links=True)
    kinds = [kind for _, kind in full]
    assert [kinds.count(kind) for kind in ("kill", "stop", "link")] == [27, 24, 11]
    assert full == sorted(full) and 0 <= full[0][0] and full[-1][0] <= 1800
    assert full == goodput.schedule(random.Random(1), 62, 1800, links=True)
    assert "link" not in dict(map(reversed, goodput.schedule(random.Random(1), 62, 1800, links=False)))
