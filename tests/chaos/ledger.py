"""What becomes of the residuals of sparse tensors, by the histories of a job (G7).

A rank that gives w * g in a step and owed e before it owes e' after it, and of every step that was committed

    sum of e + sum of w * g = applied + sum of e'

over the members of its epoch, element by element. The trainer writes fingerprints of the four, which are linear and
exact, so this is checked as it stands: what an epoch's end, a new plan, growth or shrinking forgot or took twice shows
in the next step. What a rank owes goes with it when it is killed, and is reported. One that leaves in order owes nothing
after its last step: another has that in its e'. One that was away and takes the state of the others owes all that it
owed, or nothing. A rank that comes owes nothing. Who takes part while the state is on its way sends of what it owes,
but writes nothing until it has the state: what it owed before that step nobody can say.
"""

import collections
import itertools

MODULUS = 2 ** 64


def _steps(job, life):
    return [event for event in life
            if event["event"] == "step" and "owed" in event and not job.redone(event["epoch"], event["step"])]


def _unwritten(job):
    """The steps of which a member wrote nothing."""
    written = collections.defaultdict(list)
    for life in job.lives:
        for event in _steps(job, life):
            written[event["step"]].append(event["world"])
    return {step for step, worlds in written.items() if len(worlds) < worlds[0]}


def _entries(job):
    """(record, [what its rank can have owed before it], what it owes after it) of every standing step; no choice:
    nobody wrote that."""
    unwritten = _unwritten(job)
    for life in job.lives:
        before, step = [] if life[0]["resumed"] else [0], life[0]["step"]
        last = life[-1]["step"] if life[-1]["event"] == "left" else None
        for event in _steps(job, life):
            if event["received"]:
                took_part = unwritten.intersection(range(step + 1, event["step"]))
                before = [] if took_part else [*before, 0]
            yield event, before, 0 if event["step"] == last else event["owed"]
            before, step = [event["owed"]], event["step"]


def balances(job):
    """step -> by how much it fails to balance, of the steps of which every member wrote what it owed."""
    steps = collections.defaultdict(dict)
    for event, before, after in _entries(job):
        steps[event["step"]][event["rank"]] = (event, before, after)
    found = {}
    for step, entries in steps.items():
        events, before, after = zip(*entries.values())
        if len(events) == events[0]["world"] and all(before):
            missing = sum(event["gave"] for event in events) - events[0]["applied"] - sum(after)
            found[step] = min((sum(each) + missing) % MODULUS for each in itertools.product(*before))
    return found


def residuals_are_conserved(job):
    """G7: what was given is applied or owed, in every step."""
    for step, difference in sorted(balances(job).items()):
        if difference:
            yield f"step {step}: what was owed and given is not what was applied and is owed after it"


def lost(job):
    """[(rank, after which step, norm)]: what ranks took with them that were killed."""
    found = []
    for life in job.lives:
        steps = [event for event in life if "norm" in event]
        if steps and life[-1]["event"] == "step":
            found.append((steps[-1]["rank"], steps[-1]["step"], steps[-1]["norm"]))
    return found
