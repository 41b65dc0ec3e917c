"""Trains a small convolutional network on Fashion-MNIST over Ringwood.

    ringwood run -np 4 -- python -m ringwood.examples.fashion_mnist
    python -m ringwood.examples.fashion_mnist --single        # the same training in one process, plain PyTorch
    ringwood run -np 4 -- python -m ringwood.examples.fashion_mnist --device cuda

Every rank takes its share of each global batch by position: a pass over the data is one permutation
(from the seed and the number of the pass), a global cursor walks through it, and rank r of P takes the
positions [B*r/P, B*(r+1)/P) of a batch of B. Shares may differ by one sample, so the average of the
gradients is weighted by samples. Everything is deterministic: the same seed gives the same bits (on a CUDA
device where PyTorch can; it warns where not).
"""

import argparse
import gzip
import hashlib
import json
import os
import sys
import time
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn import functional

DATA = os.environ.get("FASHION_MNIST", "/usr/share/datasets/fashion-mnist")
CONFIGURATION_ERROR = 78  # sysexits.h EX_CONFIG: a restart will not help


def interval(text):
    return text if text == "auto" else int(text)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--epochs", type=int, default=2, help="passes over the data (default 2)")
    parser.add_argument("--batch", type=int, default=128, help="samples per step, all ranks together")
    parser.add_argument("--lr", type=float, default=0.05, help="highest learning rate")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--density", type=float, default=0.01, help="share of entries sent, sparse tensors")
    parser.add_argument("--route", default="auto", choices=["auto", "dense", "sparse"])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="use only the first N samples of both sets")
    parser.add_argument("--data", default=DATA, help="directory of the four .gz files (default: FASHION_MNIST, else Debian's)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"],
                        help="where data and model lie; of several CUDA devices each rank of a host takes its own")
    parser.add_argument("--checkpoint-every", metavar="STEPS", help="0: none; default: when it is worth it",
                        default=os.environ.get("RINGWOOD_CHECKPOINT_EVERY") or "auto",
                        type=interval)
    parser.add_argument("--report", default=os.environ.get("RINGWOOD_REPORT"), metavar="FILE",
                        help="write the results as JSON")
    parser.add_argument("--history", metavar="FILE", help="write FILE.RANK.PID, a line for each committed step")
    parser.add_argument("--single", action="store_true", help="one process, no exchange: the reference")
    arguments = parser.parse_args()
    if arguments.batch < 1 or arguments.epochs < 1 or arguments.limit < 0:
        stop("--batch and --epochs must be at least 1, --limit at least 0")
    return arguments


def stop(sentence):
    print(f"fashion_mnist: {sentence}", file=sys.stderr)
    sys.exit(CONFIGURATION_ERROR)


# ---- device ---------------------------------------------------------------------------------------

def local_rank():
    return int(os.environ.get("LOCAL_RANK", "0"))


def prepare(kind):
    """The device, with PyTorch told to add in one order and, on CUDA, in full float32 as a CPU does."""
    torch.set_num_threads(1)  # the ranks share the cores anyway
    if kind == "cpu":
        torch.use_deterministic_algorithms(True)
        return torch.device("cpu")
    if not torch.cuda.is_available():
        stop("--device cuda: PyTorch finds no CUDA device here; leave the flag out to train on the CPU")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS needs to be deterministic
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.allow_tf32 = False
    device = torch.device("cuda", local_rank() % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def name_of(device):
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


# ---- data -----------------------------------------------------------------------------------------

def read_idx(directory, name):
    """One file of the set: magic (type and dimensions), sizes big-endian, then the bytes."""
    path = os.path.join(directory, name)
    if not os.path.exists(path):
        stop(f"the data set is not here: {path} is missing. Install the Debian package "
             "dataset-fashion-mnist (apt-get install dataset-fashion-mnist) or name its place with --data")
    try:
        with gzip.open(path) as file:
            content = file.read()
        dimensions = content[3]
        shape = np.frombuffer(content, ">u4", dimensions, 4)
        return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    except (OSError, EOFError, IndexError, ValueError) as failure:
        stop(f"{path} is no file of the data set, or only a part of one: {failure}")


def load(directory, part, limit=0, device="cpu"):
    images = read_idx(directory, f"{part}-images-idx3-ubyte.gz")
    labels = read_idx(directory, f"{part}-labels-idx1-ubyte.gz")
    if limit:
        images, labels = images[:limit], labels[:limit]
    labels = torch.from_numpy(labels.astype(np.int64))
    return torch.from_numpy(images.copy()).unsqueeze(1).to(device), labels.to(device)


def scaled(images):
    """Bytes to numbers of mean 0 and deviation 1, a batch at a time."""
    return (images.float() / 255 - 0.286) / 0.353


def permutation(seed, epoch, samples):
    return torch.randperm(samples, generator=torch.Generator().manual_seed(seed * 1_000_003 + epoch))


def share(begin, end, rank, world):
    """The positions of the global batch [begin, end) that belong to this rank."""
    size = end - begin
    return begin + size * rank // world, begin + size * (rank + 1) // world


# ---- model ----------------------------------------------------------------------------------------

def make_model(seed, device="cpu"):
    """Two convolutions and two linear layers, 1.25 million parameters, most of them in one tensor. The same
    first weights on every device."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 768), nn.ReLU(), nn.Linear(768, 10))
    return model.to(device)


def learning_rate(highest, step, total):
    """Rises over the first twentieth of the steps, then falls in a straight line to a twentieth."""
    rise = max(1, total // 20)
    if step < rise:
        return highest * (step + 1) / rise
    return highest * (1 - 0.95 * (step - rise) / max(1, total - rise))


def weights_digest(model):
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


# ---- who exchanges --------------------------------------------------------------------------------

class Alone:
    """One process without Ringwood: what the exchange is compared with."""
    rank, world, first_step, resumed = 0, 1, 0, None

    def __init__(self, model, arguments):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr,
                                         momentum=arguments.momentum)

    def set_samples(self, samples):
        pass

    def sum(self, values):
        return values

    def checkpoint(self, step):
        pass

    def traffic(self):
        return {"dense": 0.0, "sparse": 0.0, "dense_equivalent": 0.0}

    def digests(self):
        return [weights_digest(self.model)]

    def close(self):
        pass


class Together:
    """One rank of a job that `ringwood run` started."""

    def __init__(self, model, arguments):
        import ringwood.torch as rw
        from ringwood.examples.history import History, path_of
        self.rw = rw
        rw.init()
        self.history = History(path_of(arguments.history, rw.rank()))
        self.model, self.every = model, arguments.checkpoint_every
        self.rank, self.world = rw.rank(), rw.size()
        # The velocity lives in Ringwood: the optimizer's own momentum is 0.
        self.optimizer = rw.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=arguments.lr),
            named_parameters=model.named_parameters(), density=arguments.density,
            momentum_correction=arguments.momentum, route=arguments.route)
        if self.rank == 0:
            print(self.optimizer.session.plan, flush=True)
        rw.broadcast_parameters(model.state_dict(), root_rank=0)
        cursor = rw.resume(model, self.optimizer)
        if cursor and (cursor["batch"] != arguments.batch or cursor["seed"] != arguments.seed):
            stop(f"the checkpoint was made with --batch {cursor['batch']} --seed {cursor['seed']}; "
                 "continue with the same")
        self.cursor = {"batch": arguments.batch, "seed": arguments.seed}
        self.first_step = self.optimizer.session.step  # after the checkpoint, and what was logged since
        self.resumed = None
        if self.optimizer.session.resumed:
            replayed = self.first_step - (cursor["step"] if cursor else 0)
            self.resumed = {"step": self.first_step, "checkpoint_step": self.first_step - replayed,
                            "replayed_steps": replayed}
        self.history.opened(self.optimizer.session, replayed=self.resumed["replayed_steps"] if self.resumed else 0)

    def set_samples(self, samples):
        self.optimizer.weight = samples

    def sum(self, values):
        return self.optimizer.session.allreduce(np.array(values, np.float64)).tolist()

    def checkpoint(self, step):
        self.history.step(self.model, self.optimizer.last)
        if self.every:
            self.rw.save(self.model, self.optimizer, {**self.cursor, "step": step}, every=self.every)

    def traffic(self):
        """Bytes that a rank sends in a step: the mean over ranks and steps."""
        steps, *counts = self.sum(self.optimizer.traffic())
        dense, sparse, equivalent = (count / max(1.0, steps) for count in counts)
        return {"dense": dense, "sparse": sparse, "dense_equivalent": equivalent}

    def digests(self):
        return self.rw.gather_texts(weights_digest(self.model))

    def close(self):
        self.history.write("end", step=self.optimizer.session.step)
        self.rw.shutdown()


# ---- progress -------------------------------------------------------------------------------------

class Progress:
    """A bar on a terminal, else a line every tenth of a pass; silent unless `on`."""

    def __init__(self, on):
        self.on, self.terminal = on, on and sys.stdout.isatty()

    def show(self, epoch, done, of, loss, rate):
        if not self.on:
            return
        filled = 30 * done // of
        line = (f"pass {epoch + 1} [{'#' * filled}{'.' * (30 - filled)}] {done}/{of} "
                f"loss {loss:.3f}  {rate:.0f} samples/s")
        print("\r" + line if self.terminal else line, end="" if self.terminal else "\n", flush=True)

    def say(self, sentence):
        if self.on:
            print(("\n" if self.terminal else "") + sentence, flush=True)


# ---- training -------------------------------------------------------------------------------------

@dataclass
class Training:
    arguments: argparse.Namespace
    exchange: object
    model: nn.Module
    train: tuple
    test: tuple
    began: float = field(default_factory=time.monotonic)
    samples_done: int = 0
    losses: list = field(default_factory=list)  # of each step, this rank's part of the mean

    def __post_init__(self):
        self.progress = Progress(self.exchange.rank == 0)
        self.steps_per_pass = -(-len(self.train[0]) // self.arguments.batch)
        self.total_steps = self.steps_per_pass * self.arguments.epochs

    def run(self):
        """All passes, from the step where the checkpoint left off; returns the last accuracy."""
        accuracy, step, interval = None, self.exchange.first_step, max(1, self.steps_per_pass // 10)
        while step < self.total_steps:
            epoch, position = divmod(step, self.steps_per_pass)
            if position == 0 or accuracy is None:
                order, losses, accuracy = permutation(self.arguments.seed, epoch, len(self.train[0])), [], 0.0
            losses.append(self.one_step(step, order, position))
            step += 1
            self.exchange.checkpoint(step)
            if (position + 1) % interval == 0 or position + 1 == self.steps_per_pass:
                loss, samples = self.exchange.sum(np.sum(losses, axis=0))
                losses = []
                rate = self.samples_done / (time.monotonic() - self.began)
                self.progress.show(epoch, position + 1, self.steps_per_pass, loss / samples, rate)
            if position + 1 == self.steps_per_pass:
                accuracy = self.accuracy()
                self.progress.say(f"pass {epoch + 1}: accuracy {accuracy:.4f} on {len(self.test[0])} "
                                  f"test images")
        return accuracy if accuracy is not None else self.accuracy()

    def one_step(self, step, order, position):
        """Forward, backward, exchange, update. Returns (sum of the loss, samples) of this rank."""
        batch, optimizer = self.arguments.batch, self.exchange.optimizer
        begin, end = position * batch, min((position + 1) * batch, len(order))
        self.samples_done += end - begin
        low, high = share(begin, end, self.exchange.rank, self.exchange.world)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(self.arguments.lr, step, self.total_steps)
        optimizer.zero_grad()
        self.exchange.set_samples(high - low)
        loss = torch.zeros(())
        if high > low:  # a batch smaller than the world leaves some ranks without a sample
            chosen = order[low:high].to(self.train[0].device)
            loss = functional.cross_entropy(self.model(scaled(self.train[0][chosen])), self.train[1][chosen])
            loss.backward()
        optimizer.step()
        loss = loss.item()  # on a device: waits
        self.losses.append(loss * (high - low) / (end - begin))
        return loss * (high - low), high - low

    @torch.no_grad()
    def accuracy(self):
        """Over the whole test set, each rank a part of it."""
        images, labels = self.test
        low, high = share(0, len(images), self.exchange.rank, self.exchange.world)
        right = 0
        for begin in range(low, high, 500):
            end = min(begin + 500, high)
            right += (self.model(scaled(images[begin:end])).argmax(1) == labels[begin:end]).sum().item()
        return self.exchange.sum([right])[0] / len(images)


def summary(report, seconds):
    sent = report["bytes_per_step"]
    lines = [f"accuracy {report['accuracy']:.4f} after {report['steps']} steps of {report['world']} "
             f"rank(s), {seconds:.1f} s"]
    if sent["dense_equivalent"]:
        total = sent["dense"] + sent["sparse"]
        lines.append(f"bytes per rank and step: {sent['dense']:,.0f} dense + {sent['sparse']:,.0f} sparse; "
                     f"all dense: {sent['dense_equivalent']:,.0f} "
                     f"({sent['dense_equivalent'] / max(1.0, total):.1f} times as much)")
    same = len(set(report["weights_digest"])) == 1
    lines.append(f"weights {report['weights_digest'][0][:16]} "
                 + ("on every rank" if same else f"DIFFER: {report['weights_digest']}"))
    return "\n".join(lines)


def main():
    arguments = parse_arguments()
    device = prepare(arguments.device)
    train = load(arguments.data, "train", arguments.limit, device)
    test = load(arguments.data, "t10k", arguments.limit, device)
    model = make_model(arguments.seed, device)
    exchange = (Alone if arguments.single else Together)(model, arguments)
    training = Training(arguments, exchange, model, train, test)
    accuracy = training.run()
    report = {"accuracy": accuracy, "steps": training.total_steps, "world": exchange.world,
              "device": name_of(device),
              "losses": exchange.sum(training.losses) if training.losses else [],
              "weights_digest": exchange.digests(), "bytes_per_step": exchange.traffic()}
    if exchange.resumed:
        report["resumed"] = exchange.resumed
    if exchange.rank == 0:
        print(summary(report, time.monotonic() - training.began), flush=True)
        if arguments.report:
            with open(arguments.report, "w") as file:
                json.dump(report, file, indent=1)
    exchange.close()


if __name__ == "__main__":
    main()
