"""Local steps with fragments, delay and mixing, in NumPy, of all ranks in one process: what LocalSteps is compared with.

The model is a list of arrays whose loss on rank p in step t is half the squared distance from a target, so that a step
of SGD is w ← w − rate · (w − target)."""

import numpy as np

SHAPES = {"embedding": (9, 5), "layer.weight": (6, 5), "layer.bias": (6,), "head": (4, 6)}
RATE = 0.1


def targets(rank, step):
    random = np.random.default_rng([rank, step])
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def start():
    random = np.random.default_rng(99)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def weight_of(rank, step, uneven):
    return 1 + (3 * rank + step) % 4 if uneven else 1


class Outer:
    def __init__(self, rate, momentum, nesterov):
        self.rate, self.momentum, self.nesterov, self.velocity = rate, momentum, nesterov, {}

    def step(self, outer, average):
        for name, gradient in average.items():
            velocity = self.momentum * self.velocity.get(name, 0) + gradient
            self.velocity[name] = velocity
            outer[name] = outer[name] - self.rate * (gradient + self.momentum * velocity if self.nesterov else velocity)


def train(ranks, steps, fragments, every, delay, mix, outer, uneven):
    """`fragments`: lists of names. [each rank's parameters after each step], the outer parameters at the end."""
    theta = {name: value.astype(np.float64) for name, value in start().items()}
    own = [dict(theta) for _ in range(ranks)]
    samples = [[0] * len(fragments) for _ in range(ranks)]
    optimizer, interval, waiting, history = Outer(*outer), every // len(fragments), [], []
    for step in range(1, steps + 1):
        for rank in range(ranks):
            wanted = targets(rank, step)
            own[rank] = {name: value - RATE * (value - wanted[name]) for name, value in own[rank].items()}
            for f in range(len(fragments)):
                samples[rank][f] += weight_of(rank, step, uneven)
        if delay and waiting and waiting[0][0] == step:
            finish(waiting.pop(), theta, own, optimizer, mix)
        if step % interval == 0:
            f = (step // interval - 1) % len(fragments)
            total = sum(samples[rank][f] for rank in range(ranks))
            average = {name: sum(samples[rank][f] * (theta[name] - own[rank][name]) for rank in range(ranks)) / total
                       for name in fragments[f]}
            for rank in range(ranks):
                samples[rank][f] = 0
            waiting.append((step + delay, average))
            if not delay:
                finish(waiting.pop(), theta, own, optimizer, mix)
        history.append([flat(parameters) for parameters in own])
    return np.array(history), flat(theta)


def finish(arrived, theta, own, optimizer, mix):
    _, average = arrived
    optimizer.step(theta, average)
    for parameters in own:
        for name in average:
            parameters[name] = theta[name] + mix * (parameters[name] - theta[name])


def flat(parameters):
    return np.concatenate([parameters[name].ravel() for name in SHAPES])
