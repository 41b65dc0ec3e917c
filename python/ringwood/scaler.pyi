from typing import Any

import torch

class GradScaler(torch.amp.GradScaler):
    def unscale_(self, optimizer: torch.optim.Optimizer) -> None: ...
    def step(self, optimizer: torch.optim.Optimizer, *arguments: Any, **named: Any) -> float | None: ...
