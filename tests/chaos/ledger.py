"""What becomes of the residuals of sparse tensors, by the histories of a job (G7).

A rank that gives w * g in a step and owed e before it owes e' after it, and of every step that was committed

    sum of e + sum of w * g = applied + sum of e'

over the members of its epoch, element by element. The trainer writes fingerprints of the four, which are linear and
exact, so this is checked as it stands: what an epoch's end, a new plan, growth or shrinking forgot or took twice shows
in the next step. What a rank owes goes with it when it is killed, leaves, or takes the state of the others: that is
no violation, and is reported. A rank that comes owes nothing.
"""

import collections

MODULUS = 2 ** 64


def _entries(job):
    """(record, what its rank owed before it) of every standing step; None: nobody wrote that."""
    for life in job.lives:
        owed = None if life[0]["resumed"] else 0
        for event in life:
            if event["event"] == "step" and "owed" in event and not job.redone(event["epoch"], event["step"]):
                yield event, 0 if event["received"] else owed
                owed = event["owed"]


def balances(job):
    """step -> by how much it fails to balance, of the steps of which every member wrote what it owed."""
    steps = collections.defaultdict(dict)
    for event, before in _entries(job):
        steps[event["step"]][event["rank"]] = (event, before)
    found = {}
    for step, entries in steps.items():
        events, before = zip(*entries.values())
        if len(events) == events[0]["world"] and None not in before:
            given = sum(event["gave"] for event in events) - events[0]["applied"]
            found[step] = (sum(before) + given - sum(event["owed"] for event in events)) % MODULUS
    return found


def residuals_are_conserved(job):
    """G7: what was given is applied or owed, in every step."""
    for step, difference in sorted(balances(job).items()):
        if difference:
            yield f"step {step}: what was owed and given is not what was applied and is owed after it"


def lost(job):
    """[(rank, after which step, norm)]: what ranks took with them that were killed, left, or began anew."""
    found = []
    for life in job.lives:
        last = None
        for event in life:
            if event["event"] == "step" and event.get("received") and last:
                found.append(last)
            if event["event"] == "step" and "norm" in event:
                last = event["rank"], event["step"], event["norm"]
        if last and life[-1]["event"] != "end":
            found.append(last)
    return found
