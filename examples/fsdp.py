"""Trains a small transformer with FSDP2 on a mesh of replicas and shards, over Ringwood's backend of torch.distributed.

    ringwood run -np 4 -- python examples/fsdp.py --replicas 2
    torchrun --nproc-per-node 4 examples/fsdp.py --replicas 2       # without a launcher of Ringwood's: the same

Only the two lines marked below are Ringwood's; with "gloo" in the second it is the same script. `--save DIR` writes a
distributed checkpoint (torch.distributed.checkpoint) at the end, `--load DIR` begins with one.
"""

import argparse

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import ringwood.torch  # registers the backend

TOKENS, WIDTH, WINDOW = 64, 64, 32


class Transformer(nn.Module):
    """Predicts the next token of sequences that count up by a step of their own."""

    def __init__(self, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.places = nn.Embedding(WINDOW, WIDTH)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0, batch_first=True)
                                    for _ in range(layers))
        self.head = nn.Linear(WIDTH, TOKENS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(WINDOW), persistent=False)

    def forward(self, x):
        x = self.tokens(x) + self.places.weight
        for layer in self.layers:
            x = layer(x, src_mask=self.mask)
        return self.head(x)


def batch_of(samples):
    start, step = torch.randint(TOKENS, (samples, 1)), torch.randint(1, 8, (samples, 1))
    sequence = (start + step * torch.arange(WINDOW + 1)) % TOKENS
    return sequence[:, :-1], sequence[:, 1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--replicas", type=int, default=1, help="copies of the shards; divides the ranks (default 1)")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int, default=32, help="samples per step and rank")
    parser.add_argument("--save", metavar="DIR")
    parser.add_argument("--load", metavar="DIR")
    options = parser.parse_args()

    dist.init_process_group("ringwood")  # the environment is that of `ringwood run`, torchrun or any launcher
    if options.replicas < 1 or dist.get_world_size() % options.replicas:
        parser.error(f"--replicas {options.replicas} does not divide the {dist.get_world_size()} ranks")
    mesh = init_device_mesh("cpu", (options.replicas, dist.get_world_size() // options.replicas),
                            mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(0)
    model = Transformer()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    if options.load:
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments}
        dcp.load(state, checkpoint_id=options.load)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])

    torch.manual_seed(1 + dist.get_rank())  # every rank has its own samples
    for step in range(options.steps):
        x, y = batch_of(options.batch)
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == options.steps - 1:
            mean = loss.detach().clone()
            dist.all_reduce(mean, dist.ReduceOp.AVG)
            if dist.get_rank() == 0:
                print(f"step {step}: loss {mean.item():.3f}", flush=True)
    if options.save:
        weights, moments = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=options.save)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
