"""The ledger finds a residual that is forgotten, taken twice or cut, and knows what goes with a rank."""

import pytest

import check
import ledger

OWED = {0: [5, 7, 4, 1], 1: [3, 2, 8, 6]}  # after each step, of a rank; each gives 10 in a step


def opened(rank, resumed=False):
    return {"event": "open", "time": 0.0, "rank": rank, "epoch": 1, "step": 0, "world": 2, "resumed": resumed}


def stepped(rank, step, applied, **changed):
    return {"event": "step", "time": float(step), "step": step, "epoch": 1, "world": 2, "received": 0, "gave": 10,
            "owed": OWED[rank][step - 1], "applied": applied, "norm": 0.5 * step, **changed}


def whole(last="end"):
    applied = [20 + sum(OWED[rank][i - 1] if i else 0 for rank in OWED) - sum(OWED[rank][i] for rank in OWED)
               for i in range(4)]
    return [[opened(rank), *(stepped(rank, i + 1, applied[i]) for i in range(4)),
             {"event": last if rank else "end", "time": 9.0, "step": 4}] for rank in OWED]


def test_what_is_given_is_applied_or_owed():
    job = check.Job(whole())
    assert ledger.balances(job) == {1: 0, 2: 0, 3: 0, 4: 0}
    assert not list(ledger.residuals_are_conserved(job)) and not ledger.lost(job)


@pytest.mark.parametrize("field, value", [("owed", 0), ("owed", 15), ("gave", 20)])
def test_a_residual_that_changes_by_itself_is_found(field, value):
    histories = whole()
    histories[0][3][field] = value
    found = list(ledger.residuals_are_conserved(check.Job(histories)))
    assert found and found[0].startswith("step 3")


def test_a_rank_that_is_killed_takes_its_residual_along():
    histories = whole()
    del histories[1][-1]
    assert ledger.lost(check.Job(histories)) == [(1, 4, 2.0)]


@pytest.mark.parametrize("heir, found", [(6, []), (0, ["step 4"]), (12, ["step 4"])])
def test_a_rank_that_leaves_owes_nothing_afterwards_and_another_has_it(heir, found):
    histories = whole(last="left")
    histories[0][4]["owed"] += heir  # rank 1 owes 6 when it leaves
    job = check.Job(histories)
    assert [each[:6] for each in ledger.residuals_are_conserved(job)] == found and not ledger.lost(job)


@pytest.mark.parametrize("kept, found", [(2, []), (0, []), (1, ["step 3"])])
def test_a_rank_that_takes_the_state_of_others_owes_what_it_owed_or_nothing(kept, found):
    histories = whole()
    histories[1][3].update(received=1)
    histories[1][3]["gave"] += OWED[1][1] - kept  # to balance what is gone
    assert [each[:6] for each in ledger.residuals_are_conserved(check.Job(histories))] == found


@pytest.mark.parametrize("world, found", [(2, []), (1, ["step 3"])])
def test_a_rank_that_took_part_before_it_had_the_state_proves_nothing(world, found):
    histories = whole()
    histories[1][3].update(received=1)
    del histories[1][2]  # it wrote nothing of step 2, in which it was a member, or was not
    histories[0][2]["world"] = world
    assert [each[:6] for each in ledger.residuals_are_conserved(check.Job(histories)) if "step 3" in each] == found


def test_steps_that_nobody_can_prove_are_left_out():
    histories = whole()
    del histories[1][4:]  # killed before it wrote
    histories[0][0]["resumed"] = True  # what it owed then is in the checkpoint
    assert ledger.balances(check.Job(histories)) == {2: 0, 3: 0}
