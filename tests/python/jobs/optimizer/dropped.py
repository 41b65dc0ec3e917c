"""What a loop does to averages, under an update log: SCRIPT FOLDER saves|goes_on|rate|rate_told. The first life ends by
SIGKILL after its fifth step; one that resumes begins with the weights of then. It leaves out its third step, and `saves`
a checkpoint after it; or it sets the learning `rate` between backward and step(), which a replay may be told."""

import json
import os
import pathlib
import signal
import sys

import torch

import ringwood.torch as rw
from ringwood.errors import RefusedError

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from refusals import refused  # noqa: E402

kept, mode = pathlib.Path(sys.argv[1]) / "kept.json", sys.argv[2]
torch.set_num_threads(1)
torch.manual_seed(3)
rw.init()
model = torch.nn.Linear(6, 3)
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters())
checkpoint = rw.Checkpoint(model, optimizer, every=100)
rw.broadcast_parameters(model.state_dict())


def set_rate():
    optimizer.param_groups[0]["lr"] = 0.1 / rw.session().step


def backward():
    model(torch.full((4, 6), 0.1 * rw.session().step)).square().mean().backward()


other = torch.nn.Linear(2, 2)  # the log has not its gradients
other = rw.DistributedOptimizer(torch.optim.SGD(other.parameters(), lr=0.1), other.named_parameters())
refused(RefusedError, ["there are 2: start without --update-log"], rw.Checkpoint(model, [optimizer, other]).restore)
start = checkpoint.restore(before_step=set_rate if mode == "rate_told" else None)
state = [p.tolist() for p in model.parameters()]
if start:
    assert [start, state] == json.loads(kept.read_text()), (start, state, kept.read_text())
    rw.shutdown()
    sys.exit()
for step in range(1, 6):
    optimizer.zero_grad()
    with optimizer.no_sync():
        backward()
    backward()
    if mode == "rate":
        set_rate()
    if step != 3 or mode == "rate":
        optimizer.step()
        continue
    refused(RefusedError, ["an update log, which would replay each exchange as a step"], backward)
    optimizer.zero_grad()
    if mode == "saves":
        checkpoint.save()
        checkpoint.wait()
kept.write_text(json.dumps([rw.session().step, [p.tolist() for p in model.parameters()]]))
os.kill(os.getpid(), signal.SIGKILL)
