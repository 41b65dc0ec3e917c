"""A training with dropout whose batches come from a DataLoader over the sampler. argv: FILE for the digests, the loader's
workers ("2p": which live from pass to pass), and the step after which rank 1 kills itself if nothing was resumed (0:
never)."""

import hashlib
import os
import signal
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

import ringwood.torch as rw

workers, persistent, last = int(sys.argv[2].rstrip("p")), sys.argv[2].endswith("p"), int(sys.argv[3])
torch.set_num_threads(1)
rw.init()
torch.manual_seed(rw.rank())
generator = torch.Generator().manual_seed(5)
data = TensorDataset(torch.randn(80, 16, generator=generator), torch.randint(5, (80,), generator=generator))
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Dropout(0.2), torch.nn.Linear(64, 5))
optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
sampler = rw.Sampler(data, batch_size=16, seed=1, ahead=2 * workers)
loader = DataLoader(data, batch_sampler=sampler, num_workers=workers, prefetch_factor=2 if workers else None,
                    persistent_workers=persistent)
checkpoint = rw.Checkpoint(model, optimizer, sampler=sampler, every=1)
rw.broadcast_parameters(model.state_dict())
resumed = checkpoint.restore()
while sampler.passes < 3:
    for inputs, wanted in loader:
        optimizer.zero_grad()
        optimizer.weight = sampler.weight
        torch.nn.functional.cross_entropy(model(inputs), wanted).backward()
        optimizer.step()
        sampler.committed(optimizer.last)
        checkpoint.step()
        if optimizer.session.step == last and not resumed:
            checkpoint.wait()
            if rw.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
assert optimizer.session.step == 15
assert resumed in (0, last), resumed
weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
generators = rw.gather_texts(hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest())
if rw.rank() == 0:
    with open(sys.argv[1], "w") as file:
        file.write("\n".join([weights.hexdigest(), *generators]))
rw.shutdown()
