"""A character GPT trained as everybody does (AdamW with decay groups, gradient accumulation, clipping between
backward and step, a falling rate), wrapped without options: the losses, norms and weights are those of
DistributedDataParallel over Gloo. plain: all passes alike, nothing held back."""

import atexit
import contextlib
import math
import pathlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import ringwood.torch as rw

STEPS, PASSES, BATCH, WINDOW, WIDTH, HEADS, CLIP = 12, 3, 4, 16, 32, 4, 0.5

torch.set_num_threads(1)
text = (pathlib.Path(__file__).parents[3] / "README.md").read_text()
letters = sorted(set(text))
DATA = torch.tensor([letters.index(letter) for letter in text])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attend, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                   for part in self.attend(self.before(x)).chunk(3, -1))
        heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(heads.transpose(1, 2).flatten(2))
        return x + self.think(self.between(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letter, self.place = nn.Embedding(len(letters), WIDTH), nn.Embedding(WINDOW, WIDTH)
        self.blocks, self.after = nn.Sequential(Block(), Block()), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, len(letters), bias=False)
        self.head.weight = self.letter.weight

    def forward(self, x, y):
        x = self.after(self.blocks(self.letter(x) + self.place(torch.arange(WINDOW))))
        return functional.cross_entropy(self.head(x).flatten(0, 1), y.flatten())


def make_optimizer(model):
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))


def batch(generator):
    begins = torch.randint(len(DATA) - WINDOW - 1, (BATCH,), generator=generator)
    windows = DATA[begins[:, None] + torch.arange(WINDOW + 1)]
    return windows[:, :-1], windows[:, 1:]


def train(how, rank):
    """The loss of each pass on this rank, each step's norm, and the weights."""
    torch.manual_seed(1)
    model = trained = GPT()
    optimizer = make_optimizer(model)
    if how.startswith(("ddp", "hook")):
        trained = DistributedDataParallel(model)
    if how.startswith("hook"):
        trained.register_comm_hook(rw.HookState(model.named_parameters()), rw.communication_hook)
    if how.startswith("optimizer"):
        optimizer = rw.DistributedOptimizer(optimizer, model.named_parameters())
        rw.broadcast_parameters(model.state_dict())
    hold = optimizer.no_sync if how.startswith("optimizer") else trained.no_sync
    generator, told = torch.Generator().manual_seed(2 + rank), []
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (0.1 + 0.45 * (1 + math.cos(math.pi * step / STEPS)))
        for number in range(PASSES):
            with contextlib.nullcontext() if how.endswith("plain") or number == PASSES - 1 else hold():
                loss = trained(*batch(generator)) / PASSES
                loss.backward()
            told.append(loss.item())
        told.append(nn.utils.clip_grad_norm_(model.parameters(), CLIP).item())
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return torch.tensor(told), torch.cat([p.detach().flatten() for p in model.parameters()])


rw.init()
if not dist.is_initialized():  # one for all scripts of a process
    dist.init_process_group("gloo")
    atexit.register(dist.destroy_process_group)
want_told, want_weights = train("ddp", rw.rank())
assert want_told[-4:-1].mean() < 0.9 * want_told[:3].mean(), "it learns"
for how in ("hook", "hook plain", "optimizer", "optimizer plain"):
    told, weights = train(how, rw.rank())
    torch.testing.assert_close(told, want_told, rtol=1e-4, atol=1e-5, msg=lambda text: f"{how}: {text}")
    torch.testing.assert_close(weights, want_weights, rtol=1e-3, atol=1e-4, msg=lambda text: f"{how}: {text}")
    assert rw.session().route("letter.weight") == "ring"
    rw.shutdown()
    rw.init()
rw.shutdown()
