from collections.abc import Callable, Iterable
from typing import Any

import torch

class AverageAdamW(torch.optim.Optimizer):
    def __init__(self, params: Iterable[torch.Tensor] | Iterable[dict[str, Any]], ranks: Callable[[], int],
                 lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2) -> None: ...
    def sent(self, parameters: Iterable[torch.Tensor]) -> None: ...
    def averaged(self, moves: Iterable[tuple[torch.Tensor, torch.Tensor, torch.Tensor]], mix: float = 0.0) -> None: ...
    def step(self, closure: Callable[[], Any] | None = None) -> Any: ...  # type: ignore[override]
