"""A small GPT in Lightning over Ringwood.

    ringwood run -np 2 -- python examples/lightning_gpt.py --mode group       # all that Lightning exchanges, over Ringwood
    ringwood run -np 2 -- python examples/lightning_gpt.py --mode hook        # Lightning's DDP, Ringwood's exchange
    ringwood run -np 2 -- python examples/lightning_gpt.py --mode optimizer   # rw.DistributedOptimizer
    ringwood run -np 2 -- python examples/lightning_gpt.py --mode local       # rw.LocalSteps
    ringwood run -np 2 -- python examples/lightning_gpt.py --mode ddp         # without Ringwood, to compare with

With `group` and `hook` Lightning wraps the model in DistributedDataParallel as ever. With `optimizer` and `local` it
trains on one device a process, knows nothing of the others, and the optimizer that configure_optimizers returns does the
rest.
"""

import argparse
import json

import lightning
import torch
from lightning.pytorch.plugins.environments import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, Dataset

import ringwood.torch as rw
from ringwood.examples.local_steps import GPT

LETTERS, WINDOW = 40, 16


class Series(Dataset):
    """Letters that rise by one step or another."""

    def __len__(self):
        return 256

    def __getitem__(self, index):
        return (torch.arange(WINDOW + 1) * (1 + index % 7) + index) % LETTERS


class Module(lightning.LightningModule):
    def __init__(self, mode):
        super().__init__()
        self.gpt, self.mode, self.losses = GPT(LETTERS, WINDOW, 2, 32, 4), mode, []

    def on_train_start(self):
        """Lightning has wrapped the model now. Its own ddp_comm_hook= is heeded on GPUs alone."""
        if self.mode == "hook":
            self.trainer.strategy.model.register_comm_hook(rw.HookState(self.named_parameters()), rw.communication_hook)

    def training_step(self, windows):
        loss = self.gpt(windows)
        self.losses.append(loss.item())
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=5e-3)
        if self.mode == "optimizer":
            return rw.DistributedOptimizer(optimizer, self.named_parameters())
        if self.mode == "local":
            return rw.LocalSteps(self, optimizer, every=8, outer=rw.Nesterov(lr=0.7, momentum=0.9))
        return optimizer


def strategy_of(module):
    """What Trainer is given."""
    if module.mode in ("optimizer", "local"):
        return {"strategy": "auto", "devices": 1}
    backend = "ringwood" if module.mode == "group" else "gloo"
    return {"strategy": DDPStrategy(process_group_backend=backend), "devices": rw.size(),
            "plugins": [TorchElasticEnvironment()]}  # RANK, WORLD_SIZE, …: from `ringwood run`


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mode", default="hook", choices=["group", "hook", "optimizer", "local", "ddp"])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--report", metavar="FILE", help="write the losses of rank 0 as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rw.init()
    torch.manual_seed(1)
    module = Module(arguments.mode)
    if arguments.mode not in ("ddp", "group"):
        rw.broadcast_parameters(module.state_dict())
    data = Series()
    sampler = torch.utils.data.DistributedSampler(data, rw.size(), rw.rank(), shuffle=False)
    trainer = lightning.Trainer(accelerator="cpu", max_epochs=arguments.epochs, gradient_clip_val=1.0, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                                use_distributed_sampler=False, **strategy_of(module))
    trainer.fit(module, DataLoader(data, batch_size=8, sampler=sampler))
    if arguments.mode == "local":
        trainer.optimizers[0].join()
    if rw.rank() == 0:
        exchanges = rw.session().step if arguments.mode not in ("ddp", "group") else 0
        print(f"{arguments.mode}: loss {module.losses[0]:.4f} at first, {module.losses[-1]:.4f} in the end, "
              f"{exchanges} exchanges of gradients or parameters by Ringwood's plan", flush=True)
        if arguments.report:
            with open(arguments.report, "w", encoding="utf-8") as file:
                json.dump(module.losses, file)


if __name__ == "__main__":
    main()
