"""AdamW for ranks that step on their own gradients and average what comes of it: its second moment is that of the average
of all ranks' gradients, estimated by each rank from its own.

A rank's gradient is mu + noise, that of the average of P ranks mu + noise / sqrt(P). AdamW divides by the root of
E g² = mu² + noise²; of one rank's own gradients that is up to sqrt(P) times the root of the average's, and the updates are
as much too small:

    second moment of the average = v / P + (1 - 1 / P) · mu²

For mu there is this rank's first moment, which has noise of its own. How far the ranks came on average, which an exchange
of whole differences tells, has less of it: `averaged` makes of that the mean of their first moments. v is a mean over P
times as many steps as AdamW's: over as many gradients as AdamW's own has of all ranks together.
"""

import torch

from ..errors import InvalidError


class AverageAdamW(torch.optim.Optimizer):
    """With one rank it is torch.optim.AdamW, and its state is called as there: either loads the other's. `ranks`: how many
    there are, asked in every step; those of an elastic job come and go. Beside AdamW's state a parameter has `exp_avg_ranks`,
    the mean first moment of all ranks when they last met, `path`, the sum of learning rates since, and during an exchange
    `path_sent`, that of the steps whose difference is exchanged."""

    def __init__(self, params, ranks, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2):
        if not (lr >= 0 and eps >= 0 and weight_decay >= 0 and all(0 <= beta < 1 for beta in betas)):
            raise InvalidError(f"AverageAdamW(lr={lr}, betas={betas}, eps={eps}, weight_decay={weight_decay}): none may "
                               "be negative, and betas lie below 1")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        self._ranks = ranks

    def __getstate__(self):
        """PyTorch's leaves out what it does not know."""
        return {**super().__getstate__(), "_ranks": self._ranks}

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
            if any(p.is_complex() for p in parameters):
                raise InvalidError("AverageAdamW takes no complex parameters: register torch.view_as_real of them")
            for parameter in parameters:
                self._step(parameter, group, ranks)
        return loss

    def _step(self, parameter, group, ranks):
        state, first, second = self.state[parameter], group["betas"][0], _decay(group, ranks)
        if "exp_avg" not in state:
            state.update(step=torch.tensor(0.0, device="cpu"), exp_avg=torch.zeros_like(parameter),
                         exp_avg_sq=torch.zeros_like(parameter))
        state["step"] += 1
        state["path"] = state.get("path", 0.0) + group["lr"]
        state["exp_avg"].lerp_(parameter.grad, 1 - first)
        state["exp_avg_sq"].mul_(second).addcmul_(parameter.grad, parameter.grad, value=1 - second)
        mean = state["exp_avg"] / (1 - first ** state["step"].item())
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
        parameter.addcdiv_(mean, self._root(state, group, ranks), value=-group["lr"])

    def sent(self, parameters):
        """Their differences are made and leave. What they train until `averaged` is no part of these."""
        for parameter in parameters:
            if "path" in self.state.get(parameter, {}):
                self.state[parameter]["path_sent"] = self.state[parameter]["path"]

    @torch.no_grad()
    def averaged(self, moves, mix=0.0):
        """`moves`: (parameter, difference, start) of parameters that have been exchanged: with the steps since the last
        time the ranks came from `start` to `start - difference` on average, both float32 of the parameter's shape. `mix`:
        what is kept of the steps since the differences were `sent`."""
        ranks, group_of = self._ranks(), {id(p): group for group in self.param_groups for p in group["params"]}
        for parameter, difference, start in moves:
            state, group = self.state.get(parameter, {}), group_of[id(parameter)]
            path = state.pop("path_sent", state.get("path", 0.0))
            if not path > 0:  # it took no step
                continue
            # A step is lr · (mean / root + weight_decay · parameter).
            mean = (difference / path).sub_(start, alpha=group["weight_decay"])
            state["exp_avg_ranks"] = mean.to(parameter.device, parameter.dtype).mul_(self._root(state, group, ranks))
            state["path"] = mix * (state["path"] - path)

    def _root(self, state, group, ranks):
        """Of the second moment, with eps."""
        first, second = group["betas"][0], _decay(group, ranks)
        steps = state["step"].item()
        mean = state.get("exp_avg_ranks")
        if mean is None:
            mean = state["exp_avg"] / (1 - first ** steps)
        square = state["exp_avg_sq"] / ((1 - second ** steps) * ranks)
        return square.addcmul_(mean, mean, value=1 - 1 / ranks).sqrt_().add_(group["eps"])


def _decay(group, ranks):
    """Of v."""
    return 1 - (1 - group["betas"][1]) / ranks
