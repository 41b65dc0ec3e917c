"""What users write, for a type checker; never run."""

import numpy as np
import torch
from numpy.typing import NDArray

import ringwood
import ringwood.torch as rw


def over_arrays(batches: list[NDArray[np.float32]]) -> float:
    total = 0.0
    with ringwood.Session(wire="bf16", join_timeout=60, resume="auto") as session:
        gradient = np.zeros(1000, np.float32)
        identity: int = session.register("weights", gradient, route="sparse", density=0.01)
        for batch in batches:
            session.begin_step(weight=len(batch))
            session.ready(identity)
            result: ringwood.StepResult = session.finish_step()
            total += result.total_weight
        counts: NDArray[np.int64] = session.allreduce(np.ones(3, np.int64), op="max")
        session.checkpoint(shared={"weights": gradient, "text": b"text"})
        print(ringwood.__version__, session.plan, counts, session.restore("weights"))
    return total


def over_torch(model: torch.nn.Module, batches: list[torch.Tensor]) -> None:
    optimizer = rw.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1),
                                        named_parameters=model.named_parameters(), density=0.01, route="auto")
    rw.broadcast_parameters(model.state_dict())
    checkpoint = rw.Checkpoint(model, optimizer, every=100)
    for batch in batches[checkpoint.restore():]:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.weight = len(batch)
        optimizer.step()
        checkpoint.step()
        if optimizer.last.skipped:
            print(optimizer.traffic())


def over_local_steps(model: torch.nn.Module, batches: list[torch.Tensor]) -> None:
    optimizer = rw.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.1), every=4, outer=rw.Nesterov())
    print(rw.resume(model, optimizer))
    for step, batch in enumerate(batches):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        rw.save(model, optimizer, {"step": step}, every="auto")
    optimizer.join()


def outcome() -> int:
    sampler = ringwood.Sampler(1000, 64, seed=1)
    for indices in sampler:
        print(sum(indices), sampler.weight)
    try:
        rw.init(wire="int4")
        mean: float = rw.allreduce(0.5)
        largest: torch.Tensor = rw.allreduce(torch.ones(3), op="max")
        print(mean, largest)
        print(rw.rank(), rw.size(), rw.gather_texts("a")[0])
    except ringwood.UnavailableError as failure:
        return failure.exit_code
    finally:
        rw.shutdown()
    return 0
