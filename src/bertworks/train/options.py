"""What a recipe says of a training, section by section; names are a contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from bertworks.errors import ConfigError


@dataclass(frozen=True)
class BatchOptions:
    """length: tokens of a row. tokens: of the global batch. microbatch: rows at a time. ramp: share of the budget over
    which the batch grows from an eighth to its size.
    """

    length: int = 128
    tokens: int = 4096
    microbatch: int | Literal["auto"] = "auto"
    ramp: float = 0.0

    def __post_init__(self) -> None:
        if self.length < 8:
            raise ConfigError(f"batch.length is {self.length}", "it is at least 8")
        if self.tokens < self.length:
            raise ConfigError(
                f"batch.tokens is {self.tokens}, less than one row of batch.length = {self.length}",
                "give the tokens of a whole batch, such as 4096",
            )
        if not isinstance(self.microbatch, str) and self.microbatch < 1:
            raise ConfigError(f"batch.microbatch is {self.microbatch}", 'it is a number of rows, or "auto"')
        if not 0 <= self.ramp < 1:
            raise ConfigError(f"batch.ramp is {self.ramp}", "it is a share of the budget from 0, below 1")

    @property
    def rows(self) -> int:
        """Rows of the global batch."""
        return self.tokens // self.length


OWN: Any = None  # a key that is left out: the optimizer's own number is put there
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adamw": {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01},
    "stable-adamw": {"betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.01},
    "lamb": {"betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0.01},
    "muon": {"betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1},
}


@dataclass(frozen=True)
class OptimizerOptions:
    """Weight decay is decoupled, and none on biases and norms. betas, eps and weight_decay are the optimizer's own
    where they are left out; Muon's betas and eps are for the weights that it leaves to AdamW, momentum for its own.
    clip is the largest gradient norm, 0 for any; layer_decay below 1 makes each layer's rate that much of the one's
    above it.
    """

    name: Literal["adamw", "stable-adamw", "lamb", "muon"] = "adamw"
    lr: float = 1e-4
    betas: tuple[float, ...] = OWN
    eps: float = OWN
    weight_decay: float = OWN
    momentum: float = 0.95
    clip: float = 1.0
    layer_decay: float = 1.0
    freeze: tuple[str, ...] = ()
    embeddings: str = ""

    def __post_init__(self) -> None:
        for key, own in OPTIMIZERS[self.name].items():
            if getattr(self, key) is None:
                object.__setattr__(self, key, own)
        if self.lr <= 0:
            raise ConfigError(f"optimizer.lr is {self.lr}", "it is above 0, such as 1e-4")
        if len(self.betas) != 2 or not all(0 <= one < 1 for one in self.betas):
            raise ConfigError(f"optimizer.betas is {list(self.betas)}", "give two shares, such as [0.9, 0.999]")
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"optimizer.momentum is {self.momentum}", "it is a share below 1, such as 0.95")
        if self.eps <= 0 or self.weight_decay < 0 or self.clip < 0:
            raise ConfigError(
                f"optimizer has eps {self.eps}, weight_decay {self.weight_decay}, clip {self.clip}",
                "eps is above 0, the others are 0 or more",
            )
        if not 0 < self.layer_decay <= 1:
            raise ConfigError(f"optimizer.layer_decay is {self.layer_decay}", "it is a share, 1 for none")


@dataclass(frozen=True)
class ScheduleOptions:
    """warmup: steps over which the rate rises, or a share of the budget where it is below 1. Behind it the rate falls
    in a line, along a cosine, not at all, or (wsd) over the last `decay` of the budget. floor: the share that is left.
    """

    name: Literal["linear", "constant", "cosine", "wsd"] = "linear"
    warmup: float = 0.01
    decay: float = 0.2
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise ConfigError(f"schedule.warmup is {self.warmup}", "give steps, or a share of the budget below 1")
        if not 0 < self.decay <= 1 or not 0 <= self.floor <= 1:
            raise ConfigError(
                f"schedule has decay {self.decay} and floor {self.floor}", "decay is a share above 0, floor from 0 to 1"
            )


BUDGETS = ("steps", "tokens", "epochs", "minutes")


@dataclass(frozen=True)
class BudgetOptions:
    """How long to train: exactly one of these."""

    steps: int | None = None
    tokens: int | None = None
    epochs: float | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        given = [name for name in BUDGETS if getattr(self, name) is not None]
        if len(given) != 1:
            said = f"budget has {' and '.join(given)}" if given else "there is no budget"
            raise ConfigError(said, f"give one of {', '.join(BUDGETS)}")
        if getattr(self, given[0]) <= 0:
            raise ConfigError(f"budget.{given[0]} is {getattr(self, given[0])}", "it is above 0")


@dataclass(frozen=True)
class RunOptions:
    """precision auto: bf16 weights under fp32 masters where the machine multiplies bf16 itself, else fp32. compile
    auto: where it pays. parallel: whether each of several processes holds all weights, or a share of them.

    checkpoint_minutes: how often a checkpoint is written; keep: how many stay. evaluate_every: steps between looks at
    the held-out store, 0 for the end alone. average: the weights' moving average, such as 0.999, 0 for none.
    """

    seed: int = 0
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    compile: Literal["auto", "on", "off"] = "auto"
    parallel: Literal["ddp", "fsdp"] = "ddp"
    checkpoint_minutes: float = 10.0
    keep: int = 2
    evaluate_every: int = 0
    average: float = 0.0

    def __post_init__(self) -> None:
        if self.keep < 1 or self.checkpoint_minutes < 0 or self.evaluate_every < 0:
            raise ConfigError(
                f"run has keep {self.keep}, checkpoint_minutes {self.checkpoint_minutes}, "
                f"evaluate_every {self.evaluate_every}",
                "keep is at least 1, the others are 0 or more",
            )
        if not 0 <= self.average < 1:
            raise ConfigError(f"run.average is {self.average}", "it is a share below 1, such as 0.999")
