"""DDP, ZeRO, local SGD, pipelines, FSDP2, DTensor and distributed checkpoints over the backend that argv names; writes what came out of them."""

import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local_sgd
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.distributed.algorithms.join import Join
from torch.distributed.algorithms.model_averaging import averagers
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import ringwood.torch  # noqa: F401

backend, place = sys.argv[1:]
dist.init_process_group(backend)
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


def model_of():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
                               torch.nn.Linear(64, 4))


def train(model, steps=5, seed=0, optimizer=None):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(100 + rank + seed)
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 16)), torch.randint(4, (8,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def whole(tensor):
    tensor = tensor.detach()
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).clone()


def data_parallel():
    model = DistributedDataParallel(model_of(), bucket_cap_mb=0.01)
    train(model)
    return [whole(parameter) for parameter in model.parameters()]


def compiled():
    """PyTorch's compiler is at work when DistributedDataParallel calls the process group."""
    model = DistributedDataParallel(model_of())
    train(torch.compile(model, backend="aot_eager"))
    return [whole(parameter) for parameter in model.parameters()]


def low_rank():
    """Its callbacks start further calls, and wait for them."""
    model = DistributedDataParallel(model_of())
    model.register_comm_hook(power.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2),
                             power.powerSGD_hook)
    train(model)
    return [whole(parameter) for parameter in model.parameters()]


def in_other_ways():
    """DistributedDataParallel's settings, and a model of which each rank uses another half in each step."""
    results = []
    for settings in (dict(static_graph=True), dict(gradient_as_bucket_view=True, init_sync=False)):
        model = DistributedDataParallel(model_of(), bucket_cap_mb=0.01, **settings)
        train(model)
        results += map(whole, model.parameters())
    plain = model_of()
    model = DistributedDataParallel(plain, delay_all_reduce_named_params=[("0.weight", plain[0].weight)],
                                    param_to_hook_all_reduce=plain[4].weight)
    train(model)
    results += map(whole, model.parameters())
    halves = torch.nn.ModuleList([model_of(), model_of()])
    halves.forward = lambda inputs, steps=iter(range(5)): halves[(rank + next(steps)) % 2](inputs)
    train(DistributedDataParallel(halves, find_unused_parameters=True))
    return results + [whole(parameter) for parameter in halves.parameters()]


def uneven():
    """Ranks with fewer batches than others, and an optimizer whose state the ranks share among them."""
    model = DistributedDataParallel(model_of(), gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2)
    torch.manual_seed(rank)
    with Join([model, optimizer]):
        for _ in range(2 + rank):
            optimizer.zero_grad()
            model(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()
    optimizer.consolidate_state_dict(0)
    moments = optimizer.state_dict()["state"].values() if rank == 0 else []
    return [whole(parameter) for parameter in model.parameters()] + [moment["exp_avg"] for moment in moments]


def averaged():
    """Each rank trains alone; every second step the parameters are averaged."""
    model = DistributedDataParallel(model_of())
    alone, _ = dist.new_subgroups(1)
    model.register_comm_hook(local_sgd.PostLocalSGDState(None, alone, 2), local_sgd.post_localSGD_hook)
    averager = averagers.PeriodicModelAverager(period=2, warmup_steps=2)
    train(model, steps=7, optimizer=PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), averager))
    return [whole(parameter) for parameter in model.parameters()]


def pipelined():
    torch.manual_seed(rank)
    layer = torch.nn.Linear(16, 16)
    schedule = Schedule1F1B(PipelineStage(layer, rank, size, torch.device("cpu")), n_microbatches=4,
                            loss_fn=torch.nn.functional.mse_loss)
    torch.manual_seed(7)
    inputs, target = torch.randn(8, 16), torch.randn(8, 16)
    schedule.step(*[inputs] if rank == 0 else [], target=target if rank == size - 1 else None)
    return [parameter.grad for parameter in layer.parameters()]


def sharded(mesh):
    model = model_of()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model)
    return model, [whole(parameter) for parameter in model.parameters()]


def saved(model, mesh):
    """A checkpoint that is loaded into another model is that model; so is a whole state that rank 0 alone has."""
    dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=f"{place}.dcp")
    dcp.async_save({"model": get_model_state_dict(model)}, checkpoint_id=f"{place}.async.dcp",
                   process_group=dist.new_group()).result()
    for path in (f"{place}.dcp", f"{place}.async.dcp", None):
        other = model_of()
        fully_shard(other, mesh=mesh)
        if path:
            state = {"model": get_model_state_dict(other)}
            dcp.load(state, checkpoint_id=path)
            set_model_state_dict(other, state["model"])
        else:
            whole_state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
            set_model_state_dict(other, whole_state if rank == 0 else {},
                                 options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
        for one, two in zip(model.parameters(), other.parameters()):
            assert torch.equal(whole(one), whole(two))


line = init_device_mesh("cpu", (size,))
results = data_parallel() + compiled() + low_rank() + in_other_ways() + uneven() + averaged() + pipelined()
model, weights = sharded(line)
saved(model, line)
results += weights
table = distribute_tensor(torch.arange(24.0).reshape(6, 4), line, [Shard(0)])
results += [whole(table @ distribute_tensor(torch.ones(4, 3), line, [Replicate()])),
            whole(table.redistribute(line, [Shard(1)]))]
if size == 4:
    square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    results += sharded(square)[1]
    both = distribute_tensor(torch.arange(16.0).reshape(4, 4), square, [Shard(0), Shard(1)])
    results += [whole(both), whole(both + both)]
if rank == 0:
    torch.save(results, place)
dist.destroy_process_group()
