from dataclasses import dataclass

@dataclass(frozen=True)
class Start:
    round: int

@dataclass(frozen=True)
class Finish:
    round: int

@dataclass(frozen=True)
class Schedule:
    every: int
    fragments: int = ...
    delay: int = ...
    @property
    def interval(self) -> int: ...
    def fragment(self, number: int) -> int: ...
    def after(self, step: int, rounds: int = 0) -> tuple[Start | Finish, ...]: ...
