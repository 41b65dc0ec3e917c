"""A script for Hugging Face accelerate, whose losses and norms are the same with the hook and without; it ends
without a word of goodbye."""

import torch
from accelerate import Accelerator

import ringwood.torch as rw

torch.set_num_threads(1)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)


def train(hook):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    data = torch.utils.data.TensorDataset(torch.randn(48, 10), torch.randn(48, 1))
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-2),
                                                   torch.utils.data.DataLoader(data, batch_size=4))
    if hook:
        rw.init()
        model.register_comm_hook(rw.HookState(model.named_parameters()), rw.communication_hook)
    told = []
    for _ in range(2):
        for inputs, targets in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(inputs), targets)
                accelerator.backward(loss)
                told.append(loss.item())
                if accelerator.sync_gradients:
                    told.append(accelerator.clip_grad_norm_(model.parameters(), 0.5).item())
                optimizer.step()
                optimizer.zero_grad()
    return torch.tensor(told)


expected = train(hook=False)
torch.testing.assert_close(train(hook=True), expected, rtol=1e-4, atol=1e-5)
assert rw.session().step == 6, rw.session().step
if rw.rank() == 0:
    print("the same losses", flush=True)
