"""A rank of the convergence grid: examples/fashion_mnist.py, and δ of every sparse tensor.

δ_l = ‖Σx − applied‖² / E‖Σx − RandK(Σx)‖² (Shi et al., ECAI 2020): x is what a rank would send of
tensor l, the sum is over ranks, RandK keeps as many entries at random. Below 1 the selection loses
less than chance would. After a step Σx − applied is the sum of the residuals, and
E‖Σx − RandK(Σx)‖² = (1 − k/n)·‖Σx‖².
"""

import importlib.util
import json
import os
import pathlib
import time

import numpy as np
import torch

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "fashion_mnist.py"


def load_example():
    specification = importlib.util.spec_from_file_location("fashion_mnist", EXAMPLE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


example = load_example()


class Measured(example.Training):
    """Measures δ in every `every`-th step; sums over ranks are all-reduces outside the step."""

    every = 50

    def accuracy(self):
        trained = time.monotonic() - self.began - self.looked
        found = super().accuracy()
        self.looked = time.monotonic() - self.began - trained
        self.curve.append([self.steps_done, trained, found])
        return found

    def one_step(self, step, order, position):
        self.steps_done = step + 1
        result = super().one_step(step, order, position)
        if (step + 1) % self.every == 0:
            self.measure(step + 1)
        return result

    def measure(self, step):
        session = self.exchange.optimizer.session
        weight = self.exchange.sum([self.exchange.optimizer.weight])[0]
        parameters = dict(self.model.named_parameters())
        for name in sorted(name for name in parameters if session.route(name) == "tree"):
            left = session.residual(name).astype(np.float64).ravel()
            session.allreduce(left)
            applied = parameters[name].grad.double().cpu().numpy().ravel() * weight
            total = left + applied
            kept = np.count_nonzero(applied) / applied.size
            by_chance = (1 - kept) * np.dot(total, total)
            if by_chance > 0:
                self.deltas.setdefault(name, []).append([step, np.dot(left, left) / by_chance])


def share_device(kind):
    """Ranks that share a device stage: kernels that wait for those of other processes would take turns with
    them, a time slice a hop. (Where the caller wants it otherwise: NCCL takes several ranks on one device
    when each says that it is another host.)"""
    if kind == "cuda" and torch.cuda.device_count() == 1:
        os.environ.setdefault("RINGWOOD_DEVICE_TENSORS", "stage")
        os.environ.setdefault("NCCL_HOSTID", f"host{example.local_rank()}")


def main():
    arguments = example.parse_arguments()
    share_device(arguments.device)
    device = example.prepare(arguments.device)
    train = example.load(arguments.data, "train", arguments.limit, device)
    model = example.make_model(arguments.seed, device)
    exchange = example.Together(model, arguments)
    test = example.load(arguments.data, "t10k", device=device)
    training = Measured(arguments, exchange, model, train, test)
    training.deltas, training.curve, training.looked = {}, [], 0.0
    began = time.monotonic()
    accuracy = training.run()
    report = {"accuracy": accuracy, "steps": training.total_steps, "world": exchange.world,
              "device": example.name_of(device),
              "seconds": time.monotonic() - began, "bytes_per_step": exchange.traffic(),
              "curve": training.curve,  # [step, seconds without looks, accuracy] of each pass
              "delta": training.deltas}
    if exchange.rank == 0:
        with open(os.environ["RINGWOOD_GRID_REPORT"], "w") as file:
            json.dump(report, file)
    exchange.close()


if __name__ == "__main__":
    main()
