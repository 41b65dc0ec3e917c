"""The checker finds what is planted, and nothing in histories that keep the guarantees."""

import copy
import json

import pytest

import check

SAMPLES, SHARE = 8, 2  # of a pass; of a rank in a step


def opened(rank, epoch, step=0, resumed=False, time=0.0):
    return {"event": "open", "time": time, "rank": rank, "epoch": epoch, "step": step, "world": 2, "resumed": resumed}


def stepped(rank, step, epoch=1, began=None, digest=None, share=None):
    """Two ranks of two samples each; a pass is two steps."""
    passed, half = divmod(step - 1, 2)
    first = half * 2 * SHARE + rank * SHARE
    samples = list(range(first, first + SHARE)) if share is None else share
    return {"event": "step", "time": float(step), "step": step, "epoch": epoch, "began": began or epoch, "world": 2,
            "digest": digest or f"weights{step}", "total": 2 * SHARE, "again": 0, "pass": passed, "samples": samples}


def life(rank, steps=9):
    return [opened(rank, 1), *(stepped(rank, step) for step in range(1, steps + 1)),
            {"event": "end", "time": 99.0, "step": steps}]


def whole():
    return [life(0), life(1)]


def dies_in_step_5():
    """Rank 1 is killed; rank 0 exchanges step 5 again in epoch 2 and takes rank 1's samples in the steps after it."""
    first, second = life(0), life(1)[:5]
    shares = [(2, [0, 1]), (2, [2, 3, 4, 5]), (2, [6, 7]), (3, [0, 1, 2, 3]), (3, [4, 5, 6, 7])]
    for event, (passed, share) in zip(first[5:-1], shares):
        event.update({"epoch": 2, "began": 2, "pass": passed, "samples": share, "total": len(share)})
    first[5].update(began=1, again=1)
    return [first, second]


def resumes_from_4():
    """Both end after step 5; in epoch 2 they go on from the checkpoint of step 4, with other weights."""
    again = [[opened(rank, 2, 4, True, 50.0), *(stepped(rank, step, 2, digest=f"other{step}") for step in range(5, 10)),
              {"event": "end", "time": 99.0, "step": 9}] for rank in (0, 1)]
    return [life(rank)[:6] for rank in (0, 1)] + again


def comes_in_epoch_3():
    """Rank 1 comes again, opens after step 7 and receives the state of step 8 with step 9."""
    histories = dies_in_step_5()
    for event in histories[0][8:-1]:
        event.update(epoch=3, began=3)
    came = {**histories[0][9], "rank": 1, "samples": [], "received": 1}
    return [*histories, [opened(1, 3, 7, time=40.0), came, {"event": "end", "time": 99.0, "step": 9}]]


def receives_the_past(job):
    job[2][1]["step"] = 7


def other_digest(job):
    job[1][3]["digest"] = "strange"


def other_digest_after_the_fault(job):
    job[0][4]["digest"] = "strange"


def lost_step(job):
    del job[0][4]


def step_twice(job):
    job[0].insert(4, copy.deepcopy(job[0][3]))


def epoch_back(job):
    job[0][7]["epoch"] = job[0][7]["began"] = 1


def sample_twice(job):
    job[0][6]["samples"] = job[0][5]["samples"]


def sample_never(job):
    for event in job[0][5:7]:
        event["total"] = len(event["samples"])
    job[0][6]["samples"].pop()
    job[0][6]["total"] -= 1


def newcomer_from_before(job):
    job.append([opened(1, 3, 7, time=60.0)])


def ends_too_early(job):
    job[1] = job[1][:-2] + [{"event": "end", "time": 99.0, "step": 8}]


def rolled_back_too_far(job):
    for events in job[2:]:
        events[0]["resumed"] = False


def no_steps(job):
    for events in job:
        del events[1:]


PLANTED = [
    (whole, other_digest, "one_update_a_step: step 3 has two updates"),
    (dies_in_step_5, other_digest_after_the_fault, "one_update_a_step: step 4"),
    (whole, lost_step, "steps_are_contiguous: step 5 of rank 0 comes after step 3"),
    (whole, step_twice, "steps_are_contiguous: step 3 of rank 0 comes after step 3"),
    (dies_in_step_5, epoch_back, "epochs_never_decrease: step 7 of rank 0"),
    (whole, sample_twice, "samples_come_once: sample"),
    (whole, sample_never, "samples_come_once: the passes have different numbers"),
    (dies_in_step_5, newcomer_from_before, "nothing_committed_is_lost: rank 1 begins epoch 3 after step 7"),
    (whole, ends_too_early, "nothing_committed_is_lost: rank 1 ends after step 8, the job after 9"),
    (resumes_from_4, rolled_back_too_far, "nothing_committed_is_lost: rank 0 begins epoch 2 after step 4"),
    (comes_in_epoch_3, receives_the_past, "steps_are_contiguous: step 7 of rank 1 comes after step 7"),
    (whole, no_steps, "no step was committed"),
]


@pytest.mark.parametrize("job", [whole, dies_in_step_5, comes_in_epoch_3, resumes_from_4])
def test_what_keeps_the_guarantees_is_found_to(job):
    assert not check.check(job(), faults=1)


@pytest.mark.parametrize("job, plant, finding", PLANTED, ids=[plant.__name__ for _, plant, _ in PLANTED])
def test_a_planted_violation_is_named(job, plant, finding):
    histories = job()
    plant(histories)
    assert any(line.startswith(finding) for line in check.check(histories)), check.check(histories)


def test_more_steps_exchanged_again_than_faults_are_named():
    assert check.exchanged_again(check.Job(dies_in_step_5())) == 1
    assert any(line.startswith("exchanged_again: 1 steps for 0 faults") for line in check.check(dies_in_step_5(), 0))


def test_a_torn_last_line_is_left_out(tmp_path):
    path = tmp_path / "history"
    path.write_text(json.dumps(opened(0, 1)) + "\n" + json.dumps(stepped(0, 1))[:20])
    assert [event["event"] for event in check.read(path)] == ["open"]
