#!/usr/bin/env python3
"""Checks the histories of a job's processes against the guarantees of docs/failures.md.

    tests/chaos/check.py [--faults N] FILE…

A history is what one process wrote: a JSON object a line, each with "event" and "time" (CLOCK_MONOTONIC):

start  a process whose start takes long is about to join
open   rank, epoch, world; step: committed so far; resumed: from a checkpoint, which declares a rollback to it
step   step, epoch, world, digest of the weights after it, total: the weight of all ranks together;
       began: the epoch in which the trainer began it; again: how often it was exchanged again; received:
       the state before it came from other ranks; pass and samples: those that this rank contributed;
       gave, applied, owed, norm: of residuals, where a trainer has them (ledger.py)
error  message: what ended the process        end    step: it ended in order
left   step: it left in order, while others trained on

A torn last line is a kill's. Prints a finding a line; exit code 1 if there is one.
"""

import argparse
import collections
import json
import sys

from ledger import residuals_are_conserved


def read(path):
    """The events of a file, in order."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    return [json.loads(line) for line in lines[:-1] if line]


class Job:
    """All histories of a job. `lives`: one list of events for each opened session, in the order of their opening."""

    def __init__(self, histories):
        self.lives = []
        for events in histories:
            for event in events:
                if event["event"] == "open":
                    self.lives.append([])
                    rank = event["rank"]
                if event["event"] in ("open", "step", "end", "left"):
                    self.lives[-1].append({**event, "rank": rank})
        self.lives.sort(key=lambda life: life[0]["time"])
        self.rollbacks = sorted({(life[0]["epoch"], life[0]["step"]) for life in self.lives if life[0]["resumed"]})
        self.steps = [event for life in self.lives for event in life if event["event"] == "step"]

    def redone(self, epoch, step):
        """Whether a declared rollback took back this step, committed in this epoch."""
        return any(later > epoch and base < step for later, base in self.rollbacks)

    def standing(self):
        """step -> its records, without those that were rolled back."""
        found = collections.defaultdict(list)
        for event in self.steps:
            if not self.redone(event["epoch"], event["step"]):
                found[event["step"]].append(event)
        return found


def _who(event):
    return f"rank {event['rank']} in epoch {event['epoch']}"


def one_update_a_step(job):
    """G1, G2: whoever applied a step has the same weights after it, also between two rollbacks."""
    groups = collections.defaultdict(list)
    for event in job.steps:
        generation = sum(later <= event["epoch"] for later, _ in job.rollbacks)
        groups[generation, event["step"]].append(event)
    for (_, step), events in sorted(groups.items()):
        other = next((event for event in events if event["digest"] != events[0]["digest"]), None)
        if other:
            yield (f"step {step} has two updates: {events[0]['digest']} on {_who(events[0])}, {other['digest']} on "
                   f"{_who(other)}")


def epochs_never_decrease(job):
    for life in job.lives:
        last = life[0]["epoch"]
        for event in life[1:]:
            if event["event"] != "step":
                continue
            if event["epoch"] < last or event["began"] < last:
                yield f"step {event['step']} of rank {event['rank']} is of epoch {event['epoch']} after {last}"
            last = max(last, event["epoch"])


def steps_are_contiguous(job):
    """A process applies every step from its first on: none is lost, none comes twice. With the state of others it may
    go forward."""
    for life in job.lives:
        last = life[0]["step"]
        for event in life[1:]:
            if event.get("received") and event["step"] > last:
                last = event["step"] - 1
            expected = last + 1 if event["event"] == "step" else last
            if event["step"] != expected:
                yield f"{event['event']} {event['step']} of rank {event['rank']} comes after step {last}"
            last = event["step"]


def nothing_committed_is_lost(job):
    """G4: who opens a session without a rollback begins behind all that earlier epochs have committed, and who ends
    in order has all of it."""
    last = max(job.standing(), default=0)
    for life in job.lives:
        first, end = life[0], life[-1]
        if not first["resumed"]:
            for event in job.steps:
                if event["epoch"] < first["epoch"] and event["step"] > first["step"] \
                        and not job.redone(event["epoch"], event["step"]):
                    yield (f"rank {first['rank']} begins epoch {first['epoch']} after step {first['step']}, but step "
                           f"{event['step']} was committed on {_who(event)}")
                    break
        if end["event"] == "end" and end["step"] != last:
            yield f"rank {end['rank']} ends after step {end['step']}, the job after {last}"


def exchanged_again(job):
    """How many steps were exchanged again, those twice that were twice. A rank that received the state had another
    step before."""
    return sum(max((event["again"] for event in events if not event.get("received")), default=0)
               for events in job.standing().values())


def samples_come_once(job):
    """G7: no sample is in two committed steps of a pass; a pass that is over lacks no more than what contributors
    took with them that died before they wrote."""
    used, lacking = collections.defaultdict(dict), collections.Counter()
    steps = job.standing()
    for step, events in sorted(steps.items()):
        mine = {event["rank"]: event for event in events}  # a record a rank
        for event in mine.values():
            passed = used[event["pass"]]
            for sample in event["samples"]:
                if sample in passed:
                    yield f"sample {sample} of pass {event['pass']} is in the steps {passed[sample]} and {step}"
                passed[sample] = step
        pass_, total = events[0]["pass"], events[0]["total"]
        lacking[pass_] += total - sum(len(event["samples"]) for event in mine.values())
    sizes = {pass_: len(passed) + lacking[pass_] for pass_, passed in used.items()}
    whole = {size for pass_, size in sizes.items() if pass_ < max(used) and pass_ > min(used)}
    if len(whole) > 1:
        yield f"the passes have different numbers of samples: {sizes}"
    for pass_, size in sizes.items():
        if whole and size > max(whole):
            yield f"pass {pass_} has {size} samples, the others {max(whole)}"


RULES = [one_update_a_step, epochs_never_decrease, steps_are_contiguous, nothing_committed_is_lost, samples_come_once,
         residuals_are_conserved]


def check(histories, faults=None):
    """The findings. `faults`: how many there were, each of which may have one step exchanged again."""
    job = Job(histories)
    found = [f"{rule.__name__}: {finding}" for rule in RULES for finding in rule(job)]
    again = exchanged_again(job)
    if faults is not None and again > faults:
        found.append(f"exchanged_again: {again} steps for {faults} faults")
    if not job.steps:
        found.append("no step was committed")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    histories = [read(path) for path in options.files]
    found = check(histories, options.faults)
    print("\n".join(found) if found else f"{len(Job(histories).steps)} records of {len(histories)} processes: kept")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
