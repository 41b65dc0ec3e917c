"""Local steps of three ranks, of which one is stopped for longer than the failure timeout and comes back: FOLDER FRAGMENTS
DELAY WHERE. Rank 1 stops itself once, in a "step" or before "settle", and goes on when the others have done two rounds."""

import collections
import json
import os
import pathlib
import subprocess
import sys
import time

import torch

import ringwood.torch as rw

folder, fragments, delay, where = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(*[torch.nn.Linear(6, 6) for _ in range(4)])
inner = torch.optim.AdamW(model.parameters(), lr=0.01)
rw.init()
optimizer = rw.LocalSteps(model, inner, every=4 * fragments, fragments=fragments, delay=delay,
                          mix=0.5 if delay == 4 else 0)
sampler = rw.Sampler(60, 12, seed=2, ahead=1 if delay else 0)  # five rounds a pass
rw.elastic(model, optimizer, sampler)
checkpoint = rw.Checkpoint(model, optimizer, sampler=sampler, every=1)
rw.broadcast_parameters(model.state_dict())
data = torch.randn(60, 6, generator=torch.Generator().manual_seed(3))
session, gone = optimizer.session, folder / "gone"
trained, sent = [], []  # (pass, sample) since the last start; (its round, pass, sample)
contributors = set()    # (round, rank)
last, back, due, end = None, [], [], None


def stop():
    """Of this process, until the others have gone on."""
    subprocess.Popen(["sh", "-c", f"kill -STOP {os.getpid()}; while [ ! -e {gone} ]; do sleep 0.05; done; "
                                  f"kill -CONT {os.getpid()}"])
    while not gone.exists():
        time.sleep(0.01)


def look(before):
    """After each call that may have begun or ended a round. `before`: the rounds that were complete before it."""
    global trained, last, end
    came = optimizer.last is not last and optimizer.last.received
    if not optimizer.fragments[0].weight:
        sent.extend((before + 1, *sample) for sample in trained if not (came and delay))  # else given up
        trained = []
    if optimizer.last is not last:
        last = optimizer.last
        contributors.update((last.step, rank) for rank in last.contributors)
        back.extend([last.step] if came else [])
    if rw.rank() == 0 and session.world == 2 and session.step >= 7:
        gone.touch()
    if end is None and gone.exists() and session.world == 3 and not session.receiving and (back or rw.rank() != 1):
        end = sampler.passes + 2


def is_time():
    return rw.rank() == 1 and session.step == (4 if where == "settle" else 2) and not gone.exists()


while end is None or sampler.passes < end:
    for indices in sampler:
        passed = sampler.passes
        for number, batch in enumerate(optimizer.batches(indices)):
            if where == "step" and is_time() and number == 1:
                stop()
            optimizer.zero_grad()
            (model(data[batch]) - data[batch].flip(1)).square().mean().backward()
            trained += [(passed, index) for index in batch if optimizer.weight]
            before = session.step
            optimizer.step()
            look(before)
            if checkpoint.due:
                due.append(session.step)
            time.sleep(0.01)
    if where == "settle" and is_time():
        stop()
    before = session.step
    optimizer.settle()
    look(before)
ended = session.step
optimizer.join()
states = rw.gather_texts(str([p.tolist() for p in model.parameters()]))
assert len(set(states)) == 1, "ranks differ after join()"
assert bool(back) == (rw.rank() == 1), f"came back with rounds {back}"
known = {tuple(each) for text in rw.gather_texts(json.dumps(sorted(contributors))) for each in json.loads(text)}
texts = rw.gather_texts(json.dumps(sent))
uses = collections.Counter((passed, index) for rank, text in enumerate(texts)
                           for number, passed, index in json.loads(text) if (number, rank) in known)
wrong = [(passed, index, uses[passed, index]) for passed in range(end) for index in range(60) if uses[passed, index] != 1]
assert fragments > 1 or not wrong, f"of samples used twice or never (pass, sample, uses): {wrong[:9]}"
whole = [step for step in range(back[0] if back else 1, ended) if step not in due]
assert not whole, f"no checkpoint was due after rounds {whole}, came back with {back}"
print(f"rank {rw.rank()}: all as it should be{f', back with round {back[0]}' if back else ''}", flush=True)
