"""A small training with dropout, momentum, uneven shares and running statistics of each rank's own. argv: FILE
for the digests, then the step at which rank 1 kills itself if nothing was resumed (0: never)."""

import hashlib
import os
import signal
import sys

import torch

import ringwood.torch as rw

STEPS, BATCH, EVERY = 16, 30, 4

torch.set_num_threads(1)
rw.init()
torch.manual_seed(100 + rw.rank())  # different on every rank: broadcast must make them equal
model = torch.nn.Sequential(torch.nn.Linear(40, 300), torch.nn.ReLU(), torch.nn.Dropout(0.2),
                            torch.nn.Linear(300, 100), torch.nn.BatchNorm1d(100), torch.nn.Linear(100, 10))
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4),
                                    model.named_parameters(), density=0.05, momentum_correction=0.9)
cursor = rw.resume(model, optimizer)
if cursor is None:
    rw.broadcast_parameters(model.state_dict())
else:
    print(f"rank {rw.rank()} resumed at step {cursor['step']}", flush=True)
data = torch.randn(STEPS, BATCH, 40, generator=torch.Generator().manual_seed(1))
wanted = torch.randint(0, 10, (STEPS, BATCH), generator=torch.Generator().manual_seed(2))
for step in range(cursor["step"] if cursor else 0, STEPS):
    if step == int(sys.argv[2]) and rw.rank() == 1 and cursor is None and step:
        os.kill(os.getpid(), signal.SIGKILL)
    low, high = BATCH * rw.rank() // rw.size(), BATCH * (rw.rank() + 1) // rw.size()
    optimizer.zero_grad()
    optimizer.weight = high - low
    output = model(data[step, low:high])
    torch.nn.functional.cross_entropy(output, wanted[step, low:high]).backward()
    optimizer.step()
    rw.save(model, optimizer, {"step": step + 1}, every=EVERY)
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
residual = hashlib.sha256(b"".join(optimizer.session.residual(name).tobytes()
                                   for name, _ in model.named_parameters()))
assert optimizer.session.step == STEPS
statistics = hashlib.sha256(b"".join(b.numpy().tobytes() for b in model.buffers()))
weights, residuals, statistics = (rw.gather_texts(each.hexdigest()) for each in (digest, residual, statistics))
assert len(set(weights)) == 1, weights
assert len(set(statistics)) == rw.size(), statistics
if rw.rank() == 0:
    with open(sys.argv[1], "w") as file:
        file.write("\n".join(weights[:1] + residuals + statistics))
rw.shutdown()
