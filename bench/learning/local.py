"""Local steps in one process, for simulated.py: each rank trains a copy of the model, and every H steps the outer
parameters take a step by the average of how far the ranks have come (docs/local_steps.md).

    every 8                                            whole differences in fp32, plain average
    every 32, int4, average                            as codes, over rw.AverageAdamW
    every 64, outer 0.7, momentum 0.9                  DiLoCo: Nesterov outside
    every 2, evenness 1, int4, headroom 0.5            H grows as the learning rate falls: on average 2, rounds are even in
                                                       the sum of rate^1; the codec with other numbers (lattice.py)
    every 8, density 0.015625, decay 0.95, int4, lr 1.5
                                                       the largest of each 4,096 entries of a matrix, with a residual; the
                                                       learning rate times 1.5

Sparse differences are simulated with exact values, whatever codec is named.
"""

import copy
import itertools

import torch

from lattice import Codec, is_coded  # beside this file

from ringwood.local.average_adamw import AverageAdamW

CHUNK = LEAST_SPARSE = 4096


def largest_of_chunks(values, share):
    """`values`: (ranks, elements). What each sends of them; zeros elsewhere."""
    ranks, elements = values.shape
    chunks = -(-elements // CHUNK)
    padded = torch.nn.functional.pad(values, (0, chunks * CHUNK - elements)).view(ranks, chunks, CHUNK)
    kept = padded.abs().topk(max(1, round(share * CHUNK)), dim=2).indices
    sent = torch.zeros_like(padded).scatter_(2, kept, padded.gather(2, kept))
    return sent.view(ranks, -1)[:, :elements]


class Differences:
    """Of one tensor: what its ranks owe."""

    def __init__(self, settings, parameter, ranks):
        elements = parameter.numel()
        self.decay = settings.get("decay", 1.0)
        self.density = settings.get("density") if parameter.dim() >= 2 and elements >= LEAST_SPARSE else None
        self.codec = Codec(settings["codec"], ranks, elements, 1.0) if settings.get("codec") and not self.density else None
        self.residual = torch.zeros(ranks, elements)

    def sum(self, values):
        if self.codec:
            return self.codec.sum(values)
        if not self.density:
            return values.sum(0)
        owed = self.decay * self.residual + values
        sent = largest_of_chunks(owed, self.density)
        self.residual = owed - sent
        return sent.sum(0)


def settings_of(case):
    settings = {}
    for word in case.split(", "):
        name, _, number = word.partition(" ")
        if is_coded(word):
            settings["codec"] = word
        elif name in ("headroom", "block", "fall"):
            settings["codec"] += f", {word}"
        else:
            settings[name] = float(number) if number else True
    return settings


class LocalTraining:
    """`training`: of models.py, whose model becomes the outer parameters'."""

    def __init__(self, training, case, ranks):
        self.training, self.settings, self.ranks = training, settings_of(case), ranks
        training.lr *= self.settings.get("lr", 1.0)
        self.outer = training.model
        copies = [copy.deepcopy((training.model, training.optimizer)) for _ in range(ranks)]
        self.copies = [(model, self._inner(optimizer)) for model, optimizer in copies]
        parameters = list(self.outer.parameters())
        self.differences = [Differences(self.settings, p, ranks) for p in parameters]
        momentum = self.settings.get("momentum", 0.0)
        self.optimizer = torch.optim.SGD(parameters, self.settings.get("outer", 1.0), momentum, nesterov=momentum > 0)
        self.weights = torch.zeros(ranks)
        self.ends = self._ends()

    def _ends(self):
        """The steps after which the ranks exchange."""
        steps, every, power = self.training.steps, self.settings["every"], self.settings.get("evenness", 0.0)
        passed = list(itertools.accumulate(self.training.rate(step) ** power for step in range(steps)))
        rounds = [int(each / passed[-1] * (steps / every) + 1e-9) for each in passed]
        return {step for step in range(steps) if rounds[step] > (rounds[step - 1] if step else 0)} | {steps - 1}

    def _inner(self, optimizer):
        if "average" not in self.settings:
            return optimizer
        groups = [{name: value for name, value in group.items() if name in ("params", "lr", "betas", "eps", "weight_decay")}
                  for group in optimizer.param_groups]
        return AverageAdamW(groups, lambda: self.ranks)

    def step(self, step):
        """The mean loss of the ranks."""
        training, loss, samples_of_all = self.training, 0.0, 0
        shares = training.shares(step, self.ranks)
        for rank, (training.model, training.optimizer) in enumerate(self.copies):
            samples, compute = next(shares)
            training.begin(step)
            computed = compute()
            computed.backward()
            training.update()
            self.weights[rank] += samples
            samples_of_all += samples
            loss += computed.item() * samples
        if step in self.ends:
            self.exchange()
        training.model = self.outer
        return loss / samples_of_all

    @torch.no_grad()
    def exchange(self):
        everyone = zip(*(model.parameters() for model, _ in self.copies))
        for outer, difference, own in zip(self.outer.parameters(), self.differences, everyone):
            apart = torch.stack([(outer - p).flatten() for p in own]) * self.weights[:, None]
            outer.grad = (difference.sum(apart) / self.weights.sum()).view_as(outer)
        if "average" in self.settings and "density" not in self.settings:
            for model, optimizer in self.copies:
                optimizer.averaged((own, outer.grad, outer)
                                   for own, outer in zip(model.parameters(), self.outer.parameters()))
        self.optimizer.step()
        for model, _ in self.copies:
            for own, outer in zip(model.parameters(), self.outer.parameters()):
                own.copy_(outer)
        self.weights.zero_()
