"""AdamW for ranks that step on their own gradients and average what comes of it: its second moment is that of the average
of all ranks' gradients, estimated by each rank from its own.

A rank's gradient is mu + noise, that of the average of P ranks mu + noise / sqrt(P). AdamW divides by the root of
E g² = mu² + noise²; of one rank's own gradients that is up to sqrt(P) times the root of the average's, and the updates are
as much too small. With the first moment m for mu:

    second moment of the average = v / P + (1 - 1 / P) · m²
"""

import torch

from ..errors import InvalidError


class AverageAdamW(torch.optim.Optimizer):
    """With one rank it is torch.optim.AdamW, and its state is called as there: either loads the other's. `ranks`: how many
    there are, asked in every step; those of an elastic job come and go."""

    def __init__(self, params, ranks, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        if not (lr >= 0 and eps >= 0 and weight_decay >= 0 and all(0 <= beta < 1 for beta in betas)):
            raise InvalidError(f"AverageAdamW(lr={lr}, betas={betas}, eps={eps}, weight_decay={weight_decay}): none may "
                               "be negative, and betas lie below 1")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self._ranks = ranks

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        ranks = self._ranks()
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if any(p.grad.is_sparse for p in parameters):
                raise InvalidError("AverageAdamW takes no sparse gradients: make the embedding with sparse=False")
            for parameter in parameters:
                self._step(parameter, group, ranks)
        return loss

    def _step(self, parameter, group, ranks):
        state, (first, second) = self.state[parameter], group["betas"]
        if not state:
            state.update(step=torch.tensor(0.0), exp_avg=torch.zeros_like(parameter),
                         exp_avg_sq=torch.zeros_like(parameter))
        state["step"] += 1
        steps = state["step"].item()
        state["exp_avg"].lerp_(parameter.grad, 1 - first)
        state["exp_avg_sq"].mul_(second).addcmul_(parameter.grad, parameter.grad, value=1 - second)
        mean = state["exp_avg"] / (1 - first ** steps)
        square = state["exp_avg_sq"] / ((1 - second ** steps) * ranks)
        square.addcmul_(mean, mean, value=1 - 1 / ranks)
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.addcdiv_(mean, square.sqrt_().add_(group["eps"]), value=-group["lr"])
