"""An Embedding(sparse=True) trains over the hook of DistributedDataParallel as with the gradients of one process on the
whole batch; SparseAdam, which takes no others, too. A parameter without elements, one of two names, one that DistributedDataParallel
ignores, or a static graph, whose first backward says of no bucket that it is the last one, does not matter."""

import atexit

import torch
from torch.nn.parallel import DistributedDataParallel

import ringwood
import ringwood.torch as rw

torch.set_num_threads(1)
rw.init()
if not torch.distributed.is_initialized():
    torch.distributed.init_process_group("gloo")
    atexit.register(torch.distributed.destroy_process_group)


class Through(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.nothing = torch.nn.Parameter(torch.empty(0))
        self.ignored = torch.nn.Parameter(torch.zeros(1))

    def forward(self, inputs):
        return inputs + self.nothing.sum() + self.ignored


def model_of():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.EmbeddingBag(50, 8, sparse=True), Through(), torch.nn.Linear(8, 2))


def trained(distributed, static_graph=False):
    model = model_of()
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["1.ignored"])
    optimizers = [torch.optim.SparseAdam(model[0].parameters(), lr=0.1), torch.optim.SGD(model[2].parameters(), lr=0.1)]
    called, state = model, None
    if distributed:
        called = DistributedDataParallel(model, static_graph=static_graph)
        state = rw.HookState([*called.named_parameters(), ("tied", called.module[2].weight)])
        called.register_comm_hook(state, rw.communication_hook)
    for step in range(6):
        words = torch.randint(0, 50, (4 * rw.size(), 3), generator=torch.Generator().manual_seed(step))
        mine = words[rw.rank()::rw.size()] if distributed else words
        for optimizer in optimizers:
            optimizer.zero_grad()
        torch.nn.functional.cross_entropy(called(mine), mine[:, 0] % 2).backward()
        assert model[0].weight.grad.is_sparse
        if distributed:
            assert state.last.step == step + 1
        for optimizer in optimizers:
            optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def named_although_ignored(static_graph):
    """DistributedDataParallel's own list says so of no parameter. In a static graph's first backward its bucket would be
    waited for without end."""
    model = model_of()
    model._ddp_params_and_buffers_to_ignore = ["1.ignored"]
    called = DistributedDataParallel(model, static_graph=static_graph)
    called.register_comm_hook(rw.HookState(called.named_parameters()), rw.communication_hook)
    try:
        called(torch.zeros(4, 3, dtype=torch.long)).sum().backward()
        raise AssertionError("a parameter without a bucket went unnoticed")
    except ringwood.RefusedError as error:
        assert "module.1.ignored" in str(error) and "leave" in str(error), error


for static_graph in (False, True):
    for parameter, whole in zip(trained(True, static_graph), trained(False)):
        torch.testing.assert_close(parameter, whole, rtol=1e-4, atol=1e-5)
    rw.shutdown()
    rw.init()
    named_although_ignored(static_graph)
    rw.shutdown()
    rw.init()
rw.shutdown()
