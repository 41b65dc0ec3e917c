"""A training process of beside_torchft.py: the same model and step with Ringwood or with torchft.

    python trainer.py ringwood|torchft SECONDS HISTORY MILLISECONDS

SECONDS: the failure timeout. A step sleeps MILLISECONDS for the device that is not there, then does a small forward and
backward. HISTORY gets a line for each committed step, as that of examples/elastic.py has it.
"""

import datetime
import os
import pathlib
import signal
import sys
import time

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
from history import History  # noqa: E402

WIDTH = 512  # two layers: 0.5 M parameters


def make():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    return model, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)


def compute(model, optimizer, milliseconds):
    optimizer.zero_grad()
    time.sleep(milliseconds / 1000)
    model(torch.randn(8, WIDTH)).square().mean().backward()


def ringwood(history, ending, _, milliseconds):
    import ringwood.torch as rw

    model, optimizer = make()
    rw.init()
    optimizer = rw.DistributedOptimizer(optimizer, model.named_parameters(), route="dense")
    rw.broadcast_parameters(model.state_dict())
    sampler = rw.Sampler(range(1_000_000), 32)
    rw.elastic(model, optimizer, sampler)
    session = optimizer.session
    history.write("open")
    while not ending:
        for _ in sampler:
            compute(model, optimizer, milliseconds)
            optimizer.step()
            result = optimizer.last
            history.write("step", step=result.step, epoch=session.epoch, world=len(result.contributors))
            if ending:
                break


def torchft(history, ending, seconds, milliseconds):
    from torch.distributed import TCPStore
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

    model, optimizer = make()
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    timeout = datetime.timedelta(seconds=seconds)

    def load(state):
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    manager = Manager(pg=ProcessGroupGloo(timeout=timeout), load_state_dict=load,
                      state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                      min_replica_size=1, timeout=timeout, store_addr="127.0.0.1", store_port=store.port, rank=0,
                      world_size=1, replica_id=os.environ["RANK"], hostname="127.0.0.1")
    wrapped, stepper = DistributedDataParallel(manager, model), Optimizer(manager, optimizer)
    history.write("open")
    while not ending:
        before = manager.current_step()
        compute(wrapped, stepper, milliseconds)
        stepper.step()
        if manager.current_step() != before:  # it was committed
            history.write("step", step=manager.current_step(), epoch=manager._quorum_id,
                          world=manager.num_participants())


def main():
    which, seconds, path, milliseconds = sys.argv[1:]
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    {"ringwood": ringwood, "torchft": torchft}[which](History(path), ending, float(seconds), float(milliseconds))
    os._exit(0)  # the others need not wait


if __name__ == "__main__":
    main()
