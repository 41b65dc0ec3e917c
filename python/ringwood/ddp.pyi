from typing import Any

import torch

from .job import Job
from .optimizer import DeviceTensors, Named, Route
from .session import Session, StepResult

class HookState:
    session: Session
    weight: float
    last: StepResult | None
    def __init__(self, job: Job, named_parameters: Named, density: float | None = None,
                 momentum_correction: float | None = None, route: Route | None = None,
                 scaler: torch.amp.GradScaler | None = None, clip_norm: float | None = None,
                 device_tensors: DeviceTensors = "auto", wire_reach: float = 1.0) -> None: ...
    def exchange(self, bucket: Any) -> torch.futures.Future[torch.Tensor]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...

def communication_hook(state: HookState, bucket: Any) -> torch.futures.Future[torch.Tensor]: ...
