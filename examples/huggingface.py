"""A small GPT-2, made from a configuration, with Hugging Face's Trainer or accelerate over Ringwood.

    ringwood run -np 2 -- python examples/huggingface.py --loop trainer --mode group     # all it exchanges, over Ringwood
    ringwood run -np 2 -- python examples/huggingface.py --loop trainer --mode hook      # its DDP, Ringwood's exchange
    ringwood run -np 2 -- python examples/huggingface.py --loop trainer --mode local     # rw.LocalSteps
    ringwood run -np 2 -- python examples/huggingface.py --loop accelerate --mode group
    ringwood run -np 2 -- python examples/huggingface.py --loop accelerate --mode hook
    ringwood run -np 2 -- python examples/huggingface.py --loop accelerate --mode local

`--mode ddp` trains without Ringwood, to compare with. With local steps each process is to train alone: the variables
by which the libraries see a world are taken away once the session is open. Nothing is downloaded.
"""

import argparse
import json
import os
import tempfile

import torch

import ringwood.torch as rw

LETTERS, WINDOW, BATCH = 50, 16, 4
WORLD = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")


class Letters(torch.utils.data.Dataset):
    def __len__(self):
        return 128

    def __getitem__(self, index):
        letters = (torch.arange(WINDOW) * (1 + index % 5) + index) % LETTERS
        return {"input_ids": letters, "labels": letters}


def train_on_alone():
    """From here on the libraries see one process."""
    for name in WORLD:
        os.environ.pop(name, None)


def share():
    """This rank's part of the data, where the libraries do not know of the others."""
    return torch.utils.data.Subset(Letters(), range(rw.rank(), len(Letters()), rw.size()))


def make_model():
    from transformers import GPT2Config, GPT2LMHeadModel
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(vocab_size=LETTERS, n_positions=WINDOW, n_embd=32, n_layer=2, n_head=2,
                                      bos_token_id=0, eos_token_id=0, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def local_steps(model):
    rw.broadcast_parameters(model.state_dict())
    inner = torch.optim.AdamW(model.parameters(), lr=5e-3)
    optimizer = rw.LocalSteps(model, inner, every=4, outer=rw.Nesterov(lr=0.7, momentum=0.9))
    train_on_alone()
    return optimizer


def with_trainer(mode, epochs):
    """The losses that the Trainer logged."""
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Hook(TrainerCallback):
        def on_train_begin(self, arguments, state, control, model=None, **_):
            trainer.model_wrapped.register_comm_hook(rw.HookState(model.named_parameters()), rw.communication_hook)

    model = make_model()
    optimizers = (None, None)
    if mode == "local":
        optimizer = local_steps(model)
        optimizers = (optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(model, TrainingArguments(
            folder, use_cpu=True, per_device_train_batch_size=BATCH, num_train_epochs=epochs, learning_rate=5e-3,
            lr_scheduler_type="constant", weight_decay=0.01, logging_steps=1, report_to=[], save_strategy="no",
            disable_tqdm=True, ddp_backend=None if mode == "local" else "gloo", ddp_find_unused_parameters=False),
            train_dataset=share() if mode == "local" else Letters(), optimizers=optimizers,
            callbacks=[Hook()] if mode == "hook" else [])
        trainer.train()
    if mode == "local":
        optimizer.join()
    return [each["loss"] for each in trainer.state.log_history if "loss" in each]


def with_accelerate(mode, epochs):
    """The losses of this rank."""
    from accelerate import Accelerator
    model = make_model()
    optimizer = local_steps(model) if mode == "local" else torch.optim.AdamW(model.parameters(), lr=5e-3)
    accelerator = Accelerator(cpu=True)
    data = share() if mode == "local" else Letters()
    model, wrapped, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, BATCH))
    if mode == "hook":
        model.register_comm_hook(rw.HookState(model.named_parameters()), rw.communication_hook)
    losses = []
    for _ in range(epochs):
        for batch in loader:
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            wrapped.step()
            wrapped.zero_grad()
            losses.append(loss.item())
    if mode == "local":
        optimizer.join()
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--loop", default="trainer", choices=["trainer", "accelerate"])
    parser.add_argument("--mode", default="hook", choices=["group", "hook", "local", "ddp"])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--report", metavar="FILE", help="write the losses of rank 0 as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rw.init()
    if arguments.mode == "group":
        torch.distributed.init_process_group("ringwood")  # before the libraries make one
    losses = {"trainer": with_trainer, "accelerate": with_accelerate}[arguments.loop](arguments.mode, arguments.epochs)
    if rw.rank() == 0:
        exchanges = rw.session().step if arguments.mode in ("hook", "local") else 0
        print(f"{arguments.loop}, {arguments.mode}: loss {losses[0]:.4f} at first, {losses[-1]:.4f} in the end, "
              f"{exchanges} exchanges of gradients or parameters by Ringwood's plan", flush=True)
        if arguments.report:
            with open(arguments.report, "w", encoding="utf-8") as file:
                json.dump(losses, file)


if __name__ == "__main__":
    main()
