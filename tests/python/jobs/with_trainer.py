"""Hugging Face's Trainer with the hook, put in place by a callback, logs what it logs without. argv: a folder."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import ringwood.torch as rw

torch.set_num_threads(1)


class Letters(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        letters = (torch.arange(16) * (i + 1)) % 50
        return {"input_ids": letters, "labels": letters}


class Hook(TrainerCallback):
    def on_train_begin(self, arguments, state, control, model=None, **_):
        trainer.model_wrapped.register_comm_hook(rw.HookState(model.named_parameters()), rw.communication_hook)


logs = []
for callbacks in ([], [Hook()]):
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=50, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0,
                                       eos_token_id=0, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    trainer = Trainer(model, TrainingArguments(
        sys.argv[1], use_cpu=True, per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=2,
        learning_rate=3e-3, logging_steps=1, report_to=[], save_strategy="no", disable_tqdm=True, ddp_backend="gloo",
        ddp_find_unused_parameters=False), train_dataset=Letters(), callbacks=callbacks)
    rw.init()
    trainer.train()
    logs.append(torch.tensor([[each["loss"], float(each["grad_norm"])] for each in trainer.state.log_history
                              if "loss" in each]))
assert len(logs[0]) == 4 * 2 // 2 and rw.session().step == 4, logs
torch.testing.assert_close(logs[1], logs[0], rtol=1e-3, atol=1e-3)
if rw.rank() == 0:
    print("the same losses", flush=True)
