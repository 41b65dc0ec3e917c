"""PyTorch's GradScaler, for a DistributedOptimizer: exchanges before it unscales.

    scaler = rw.GradScaler("cpu")
    optimizer = rw.DistributedOptimizer(…, scaler=scaler)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)            # optional: to clip
    scaler.step(optimizer)
    scaler.update()

A NaN or Inf on one rank reaches the scalers of all, so that all leave the step out and keep one factor.
"""

import torch

from .optimizer import DistributedOptimizer

_Base = torch.amp.GradScaler if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler


class GradScaler(_Base):
    def unscale_(self, optimizer):
        if self.is_enabled() and isinstance(optimizer, DistributedOptimizer):
            optimizer.synchronize()
        super().unscale_(optimizer)

    def step(self, optimizer, *arguments, **named):
        result = super().step(optimizer, *arguments, **named)
        if isinstance(optimizer, DistributedOptimizer):
            optimizer.end_step()  # also where the scaler left it out
        return result
