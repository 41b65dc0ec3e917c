"""AdamW below an average: its second moment is that of the average of all ranks' gradients, estimated by each rank from
its own gradients alone.

A rank's gradient is mu + noise, that of the average of P ranks mu + noise / sqrt(P). AdamW divides by the root of
E g² = mu² + noise²; on one rank's own gradients that is up to sqrt(P) times the root that it would have on the average,
and the updates are as much too small. With m for mu:

    v of the average = v / P + (1 - 1 / P) · m²
"""

import torch


class AverageAdamW(torch.optim.Optimizer):
    def __init__(self, groups, lr, ranks, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(groups, {"lr": lr, "ranks": ranks, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(parameter, group)

    def _step(self, parameter, group):
        state, (first, second) = self.state[parameter], group["betas"]
        if not state:
            state.update(step=0, mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        state["step"] += 1
        state["mean"].lerp_(parameter.grad, 1 - first)
        state["square"].mul_(second).addcmul_(parameter.grad, parameter.grad, value=1 - second)
        mean = state["mean"] / (1 - first ** state["step"])
        square = state["square"] / (1 - second ** state["step"]) / group["ranks"]
        square.addcmul_(mean, mean, value=1 - 1 / group["ranks"])
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.addcdiv_(mean, square.sqrt_().add_(group["eps"]), value=-group["lr"])
