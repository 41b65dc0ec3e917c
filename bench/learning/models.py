"""The three trainings of bits.py in one process, for simulated.py: the same models, data, schedules and shares of a batch.

A training has `model`, `steps`, `begin(step)` for the learning rate, `shares(step, ranks)`, which yields each rank's
number of samples and a function that computes its loss, `update()` once gradients are the averages, and `metric()`.
"""

import math
import sys

import torch
from torch.nn.functional import cross_entropy

from runs import ROOT  # beside this file
from train import BATCH, CASES, WINDOW, GPT, groups_of, learning_rate, text, validate, windows_of

sys.path.insert(0, str(ROOT / "examples"))
import char_lstm  # noqa: E402
import fashion_mnist  # noqa: E402

sys.path.insert(0, str(ROOT / "bench" / "convergence"))
import letters  # noqa: E402

from ringwood.examples.letters import read  # noqa: E402


class Training:
    lr = 0.0
    wire_reach = 1.0  # as python/ringwood/recipe.py has it for the optimizer

    def rate(self, step):
        """Of the highest learning rate."""
        raise NotImplementedError

    def begin(self, step):
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr * self.rate(step)
        self.model.zero_grad()

    def update(self):
        self.optimizer.step()

    def look(self, step):
        """After every step."""


class Gpt(Training):
    """train.py's; the metric is the perplexity of the validation text."""
    lr, steps, wire_reach, batch = 3e-3, 2000, 0.5, BATCH

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.text, self.validation, count = text()
        self.model = GPT(count, WINDOW, 2, 64, 4)
        self.optimizer = torch.optim.AdamW(groups_of(self.model, CASES["dense"]), self.lr, betas=(0.9, 0.95))
        self.draw = torch.Generator().manual_seed(1000 + seed)

    def rate(self, step):
        return learning_rate(step, self.steps)

    def shares(self, step, ranks):
        starts = torch.randint(0, len(self.text) - WINDOW - 1, (self.batch,), generator=self.draw)
        for rank in range(ranks):
            mine = starts[rank::ranks]
            yield len(mine), lambda mine=mine: self.model(windows_of(self.text, mine, WINDOW))

    def update(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        super().update()

    def metric(self):
        return math.exp(validate(self.model, self.validation, WINDOW))


class GptLong(Gpt):
    """Four times the windows a step, and twice the steps."""
    steps, batch = 4000, 4 * BATCH


class Lstm(Training):
    """examples/char_lstm.py's; the metric is the perplexity of the last twentieth of the steps."""
    lr, steps, batch, window = 0.5, 600, 32, 48

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.text, count = read("/usr/share/common-licenses/GPL-3")
        self.model = char_lstm.Characters(count, 192)
        self.optimizer = torch.optim.SGD(self.model.parameters(), self.lr, 0.9)
        self.places, self.losses = torch.Generator().manual_seed(seed), []

    def rate(self, step):
        return char_lstm.learning_rate(1.0, step, self.steps)

    def loss(self, windows):
        loss = cross_entropy(self.model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
        self.losses[-1] += loss.item() * len(windows) / self.batch
        return loss

    def shares(self, step, ranks):
        begins = torch.randint(len(self.text) - self.window - 1, (self.batch,), generator=self.places)
        windows = self.text[begins[:, None] + torch.arange(self.window + 1)]
        self.losses.append(0.0)
        for rank in range(ranks):
            low, high = fashion_mnist.share(0, self.batch, rank, ranks)
            yield high - low, lambda low=low, high=high: self.loss(windows[low:high])

    def metric(self):
        last = self.losses[-self.steps // 20:]
        return math.exp(sum(last) / len(last))


class LstmValidated(Lstm):
    """The same on the part of the text that bench/convergence/letters.py learns; the metric is the lowest perplexity of the
    other part, which is what counts where ranks have models of their own."""
    steps, looks = 1050, 40

    def __init__(self, seed):
        super().__init__(seed)
        cut = len(self.text) - len(self.text) // letters.VALIDATED
        self.text, self.validation, self.seen = self.text[:cut], self.text[cut:], []

    def look(self, step):
        if (step + 1) % (self.steps // self.looks) == 0:
            self.seen.append(letters.perplexity(self.model, self.validation))

    def metric(self):
        return min(self.seen)


class LstmAdamw(Lstm):
    """The same with AdamW."""
    lr, wire_reach = 5e-3, 0.5

    def __init__(self, seed):
        super().__init__(seed)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), self.lr)

    def update(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        super().update()


class Cnn(Training):
    """examples/fashion_mnist.py's, 3 passes over 30,000 samples; the metric is the accuracy on the test set."""
    lr, batch, samples, passes = 0.05, 128, 30_000, 3
    a_pass = -(-samples // batch)
    steps = passes * a_pass

    def __init__(self, seed):
        self.images, self.labels = fashion_mnist.load(fashion_mnist.DATA, "train", self.samples)
        self.model, self.seed = fashion_mnist.make_model(seed), seed
        self.optimizer = torch.optim.SGD(self.model.parameters(), self.lr, 0.9)

    def rate(self, step):
        return fashion_mnist.learning_rate(1.0, step, self.steps)

    def loss(self, chosen):
        return cross_entropy(self.model(fashion_mnist.scaled(self.images[chosen])), self.labels[chosen])

    def shares(self, step, ranks):
        passed, position = divmod(step, self.a_pass)
        if position == 0:
            self.order = fashion_mnist.permutation(self.seed, passed, self.samples)
        begin, end = position * self.batch, min((position + 1) * self.batch, self.samples)
        for rank in range(ranks):
            low, high = fashion_mnist.share(begin, end, rank, ranks)
            yield high - low, lambda low=low, high=high: self.loss(self.order[low:high])

    @torch.no_grad()
    def metric(self):
        images, labels = fashion_mnist.load(fashion_mnist.DATA, "t10k")
        right = sum((self.model(fashion_mnist.scaled(images[at:at + 500])).argmax(1) == labels[at:at + 500]).sum().item()
                    for at in range(0, len(images), 500))
        return right / len(images)


MODELS = {"cnn": Cnn, "lstm": Lstm, "lstm, AdamW": LstmAdamw, "gpt": Gpt, "lstm, validated": LstmValidated,
          "gpt, long": GptLong}
