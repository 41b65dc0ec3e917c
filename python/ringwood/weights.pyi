from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

def pull(server: str | None = None, items: str | Sequence[str] | None = None, job: int | str | None = None,
         timeout: float = 60.0, *, newest_stored: bool = False, rank: int | None = None,
         token: str | None = None) -> tuple[int, dict[str, NDArray[Any]]]: ...
