"""What the loop is handed and what it hands on: settings, losses, a watcher, and how far a run is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from .options import BudgetOptions, OptimizerOptions, RunOptions, ScheduleOptions


class Batching(Protocol):
    """What the loop asks of a recipe's batch section; rows: of the global batch."""

    @property
    def length(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def microbatch(self) -> int | Literal["auto"]: ...
    @property
    def ramp(self) -> float: ...


@dataclass(frozen=True)
class Settings:
    """A recipe's sections that concern the loop."""

    batch: Batching
    optimizer: OptimizerOptions
    schedule: ScheduleOptions
    budget: BudgetOptions
    run: RunOptions


@dataclass
class State:
    """How far a run is; with the tensors, all that a resume needs."""

    step: int = 0
    tokens: int = 0
    epoch: int = 0
    position: int = 0
    minutes: float = 0.0
    microbatch: int = 0  # rows; kept, since another one would round differently
    skipped: int = 0
    finished: bool = False
    loss_scale: float = 1.0  # of fp16, whose small gradients would vanish
    scale_steps: int = 0  # without an overflow at this scale
    best: float | None = None  # value of the best look
    best_step: int = 0
    looks: int = 0  # since the best one


@dataclass(frozen=True)
class Losses:
    """total: to go backward from, this microbatch's share of the global batch's loss. facts: sums to report, the loss
    among them.
    """

    total: Tensor
    facts: Mapping[str, float] = field(default_factory=dict)


class Loss(Protocol):
    def counts(self, batch: Any) -> Mapping[str, int]:
        """Of a microbatch; their sums over the global batch are what its losses are divided by. `tokens`: what it adds
        to the run's tokens, rows × length where not given.
        """

    def __call__(self, module: nn.Module, batch: Any, counts: Mapping[str, int], accuracy: bool) -> Losses: ...


class Watcher(Protocol):
    def step(self, row: Mapping[str, float | int]) -> None: ...
    def evaluated(self, row: Mapping[str, float | int]) -> None: ...
    def resumed(self, step: int) -> None: ...
    def end(self, outcome: str) -> None: ...


@dataclass(frozen=True)
class Best:
    """Keep the weights of the look with the best `metric`; stop after `patience` looks without a better one, 0 for
    never.
    """

    metric: str
    larger: bool = True
    patience: int = 0

    def beats(self, value: float, best: float | None) -> bool:
        """Whether a value is better than the best so far; what is not a number never is."""
        if value != value:
            return False
        return best is None or (value > best if self.larger else value < best)
