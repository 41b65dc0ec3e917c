"""Complex weights, as Fourier neural operators have them: the optimizer and DistributedDataParallel's hook give the
same weights on both ranks, close to those of one process on the whole batch."""

import atexit

import torch
from torch.nn.parallel import DistributedDataParallel

import ringwood.torch as rw
from ringwood.staged import real

STEPS, BATCH, SIZE = 8, 12, 16
torch.set_num_threads(1)
rw.init()


class Spectral(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.low = torch.nn.Parameter(torch.randn(SIZE // 2 + 1, dtype=torch.complex64))
        self.high = torch.nn.Parameter(torch.randn(2, SIZE // 2 + 1, dtype=torch.complex64))
        self.last = torch.nn.Linear(SIZE, 3)

    def forward(self, x):
        spectrum = torch.fft.rfft(x) * self.low
        return self.last(torch.fft.irfft((spectrum * self.high[0] * self.high[1]), SIZE))


data = torch.randn(STEPS, BATCH, SIZE, generator=torch.Generator().manual_seed(1))


def trained(how, first, end):
    model = called = Spectral()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    if how == "optimizer":
        optimizer = rw.DistributedOptimizer(optimizer, model.named_parameters())
    if how == "hook":
        called = DistributedDataParallel(model)
        called.register_comm_hook(rw.HookState(model.named_parameters()), rw.communication_hook)
    for step in range(STEPS):
        optimizer.zero_grad()
        called(data[step, first:end]).pow(2).mean().backward()
        optimizer.step()
    return torch.cat([real(p.detach()).flatten() for p in model.parameters()])


def marked(how):
    """The gradients of both are only marked, as conjugate and as negative; the latter on rank 0 alone."""
    weight = torch.nn.Parameter(torch.arange(6.0).reshape(3, 2).to(torch.complex64) + 1j)
    angle = torch.nn.Parameter(torch.ones(1))
    parameters = {"weight": weight, "angle": angle}
    optimizer = torch.optim.SGD(parameters.values(), lr=0.5)
    if how == "optimizer":
        optimizer = rw.DistributedOptimizer(optimizer, parameters.items())
    for step in range(3):
        optimizer.zero_grad(set_to_none=step < 2)
        losses = []
        for rank in [rw.rank()] if how == "optimizer" else range(rw.size()):
            rows = torch.tensor([[1 + 2j, 3 - 1j * rank, step + 1j]])
            turned = (torch.complex(torch.ones(1), angle).conj() * (1 + 2j)).real.sum() if rank == 0 else angle.sum() * 7
            losses.append((rows @ weight.conj()).real.sum() + turned)
        (sum(losses) / len(losses)).backward()
        optimizer.step()
    return [p.detach().clone() for p in (weight, angle)]


half = BATCH // rw.size()
mine = half * rw.rank(), half * (rw.rank() + 1)
if not torch.distributed.is_initialized():
    torch.distributed.init_process_group("gloo")
    atexit.register(torch.distributed.destroy_process_group)
weights = {how: trained(how, *mine) for how in ("optimizer", "hook")}
assert torch.equal(weights["optimizer"], weights["hook"])
assert len(set(rw.gather_texts(weights["hook"].numpy().tobytes().hex()))) == 1
torch.testing.assert_close(weights["hook"], trained("alone", 0, BATCH), rtol=0, atol=1e-4)
rw.shutdown()
rw.init()
for mine, expected in zip(marked("optimizer"), marked("alone"), strict=True):
    torch.testing.assert_close(mine, expected)
rw.shutdown()
