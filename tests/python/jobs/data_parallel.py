"""The same training twice over: argv[1] says how the gradients travel (optimizer: DistributedOptimizer,
hook: DistributedDataParallel with the communication hook, scaled: the same with a GradScaler), argv[2] the
route, argv[3] the file for the weights, argv[4] the device (left out: the CPU). The caller compares the files:
the scaler's factor is a power of two, so the bits are the same."""

import atexit
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

import ringwood
import ringwood.torch as rw

how, route, path, device = [*sys.argv[1:], "cpu"][:4]
STEPS, BATCH, MOMENTUM = 6, 24, 0.8

torch.set_num_threads(1)
torch.manual_seed(5)
if device == "cuda":
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.allow_tf32 = False  # weights are compared with the CPU's; convolutions round to 10 bits else
rw.init()
model = torch.nn.Sequential(
    torch.nn.Conv2d(2, 8, 3).to(memory_format=torch.channels_last), torch.nn.ReLU(), torch.nn.Flatten(),
    torch.nn.Linear(8 * 6 * 6, 120), torch.nn.Tanh(), torch.nn.Linear(120, 5)).to(device)
settings = {"density": 0.05, "momentum_correction": MOMENTUM, "route": route}
plain = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.cuda.amp.GradScaler(enabled=False)
if how == "scaled":
    scaler = torch.amp.GradScaler(device, init_scale=256.0)
if how != "optimizer":
    if not torch.distributed.is_initialized():  # one for all runs: a second one can meet the first one's store
        torch.distributed.init_process_group("gloo")
        atexit.register(torch.distributed.destroy_process_group)
    trained = DistributedDataParallel(model, bucket_cap_mb=0.02)  # several buckets, made anew in step 2
    try:
        rw.communication_hook(None, None)
        raise AssertionError("a state of the wrong kind went unnoticed")
    except ringwood.InvalidError as error:
        assert "HookState" in str(error)
    state = rw.HookState(model.named_parameters(), **settings, scaler=scaler)
    try:
        rw.communication_hook(state, (plain.param_groups[0]["params"][0],) * 2)
        raise AssertionError("a call without a bucket went unnoticed")
    except ringwood.RefusedError as error:
        assert "python_reducer" in str(error)
    trained.register_comm_hook(state, rw.communication_hook)
    optimizer = plain
else:
    trained = model
    state = optimizer = rw.DistributedOptimizer(plain, model.named_parameters(), **settings)
data = torch.randn(STEPS, BATCH, 2, 8, 8, generator=torch.Generator().manual_seed(1)).to(device)
wanted = torch.randint(0, 5, (STEPS, BATCH), generator=torch.Generator().manual_seed(2)).to(device)
low, high = BATCH * rw.rank() // rw.size(), BATCH * (rw.rank() + 1) // rw.size()
for step in range(STEPS):
    optimizer.zero_grad()
    state.weight = high - low
    loss = torch.nn.functional.cross_entropy(trained(data[step, low:high]), wanted[step, low:high])
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    assert state.last.step == step + 1 and not state.last.skipped
    assert state.last.total_weight == BATCH

if how != "optimizer":  # one rank's NaN is everyone's, so that a GradScaler skips everywhere
    optimizer.zero_grad()
    loss = trained(data[0, low:high]).sum() * (float("nan") if rw.rank() == 0 else 1)
    scaler.scale(loss).backward()
    assert state.last.skipped and all(p.grad.isnan().all() for p in model.parameters())
    if how == "scaled":
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 128
weights = torch.cat([p.detach().flatten() for p in model.parameters()]).cpu().numpy()
assert len(set(rw.gather_texts(weights.tobytes().hex()))) == 1, "the ranks have different weights"
if rw.rank() == 0:
    weights.tofile(path)
rw.shutdown()
