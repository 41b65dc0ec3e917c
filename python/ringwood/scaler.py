"""PyTorch's GradScaler, for a DistributedOptimizer that must know the factor (sparse tensors): exchanges before it
unscales.

    scaler = rw.GradScaler("cpu")
    optimizer = rw.DistributedOptimizer(…, scaler=scaler)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)            # optional: to clip
    scaler.step(optimizer)
    scaler.update()

A NaN or Inf on one rank reaches the scalers of all, so that all leave the step out and keep one factor.
"""

import torch

from .errors import InvalidError
from .optimizer import DistributedOptimizer

if hasattr(torch.amp, "GradScaler"):
    _Base = torch.amp.GradScaler
else:
    class _Base(torch.cuda.amp.GradScaler):
        """That of PyTorch before 2.3 scales on CUDA devices only and takes no device."""

        def __init__(self, device="cuda", **named):
            if device != "cuda":
                raise InvalidError(f'a GradScaler on "{device}" needs PyTorch 2.3, this is {torch.__version__}')
            super().__init__(**named)


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
