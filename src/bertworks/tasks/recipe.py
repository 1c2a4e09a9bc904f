"""What a fine-tuning recipe says, section by section; its keys are a contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from bertworks.config import Table, made, sections_of
from bertworks.errors import ConfigError
from bertworks.train.options import BudgetOptions, OptimizerOptions, RunOptions, ScheduleOptions

from .known import task_class
from .task import Task

SECTIONS = ("task", "data", "batch", "optimizer", "schedule", "budget", "run")


@dataclass(frozen=True)
class TuningOptions:
    """The keys of [task] that all tasks share.

    reinitialise: how many top layers forget what they learnt. patience: looks (run.evaluate_every) without a better one
    after which training ends, 0 for never. seeds: several runs, whose figures are told with their mean and interval.
    folds: parts of the training file that are held out in turn. lora: the rank of adapters beside the frozen matrices
    of these names, 0 for none.
    """

    name: str
    reinitialise: int = 0
    patience: int = 0
    seeds: tuple[int, ...] = ()
    folds: int = 0
    lora: int = 0
    lora_alpha: float = 16.0
    lora_targets: tuple[str, ...] = ("query", "value")

    def __post_init__(self) -> None:
        if min(self.reinitialise, self.patience, self.lora) < 0 or self.lora_alpha <= 0:
            raise ConfigError(
                f"task has reinitialise {self.reinitialise}, patience {self.patience}, lora {self.lora}, "
                f"lora_alpha {self.lora_alpha}",
                "lora_alpha is above 0, the others are 0 or more",
            )
        if self.folds < 0 or self.folds == 1:
            raise ConfigError(f"task.folds is {self.folds}", "two or more, 0 for none")
        if self.folds and len(self.seeds) > 1:
            raise ConfigError("task has both seeds and folds", "give one of them")
        if len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(f"task.seeds is {list(self.seeds)}", "each once")


@dataclass(frozen=True)
class DataOptions:
    """columns: role → the file's column, any other key of [data]. separator: between several labels in one text.
    dev_share: what is held out of the training file where no --dev is given.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    separator: str | None = None
    dev_share: float = 0.1

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> DataOptions:
        own = {name: value for name, value in table.items() if name in ("separator", "dev_share")}
        columns = {name: str(value) for name, value in table.items() if name not in own}
        return replace(made(cls, own, "data"), columns=columns)

    def table(self) -> Table:
        return {"separator": self.separator, "dev_share": self.dev_share, **self.columns}


@dataclass(frozen=True)
class TuningBatch:
    """size: rows of the global batch. length: tokens of a feature at most, auto for what the model takes. microbatch:
    rows at a time. ramp: share of the budget over which the batch grows from an eighth to its size.
    """

    size: int = 32
    length: int | Literal["auto"] = "auto"
    microbatch: int | Literal["auto"] = "auto"
    ramp: float = 0.0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"batch.size is {self.size}", "it is a number of rows")
        if not isinstance(self.length, str) and self.length < 8:
            raise ConfigError(f"batch.length is {self.length}", "it is at least 8")
        if not isinstance(self.microbatch, str) and self.microbatch < 1:
            raise ConfigError(f"batch.microbatch is {self.microbatch}", 'it is a number of rows, or "auto"')
        if not 0 <= self.ramp < 1:
            raise ConfigError(f"batch.ramp is {self.ramp}", "it is a share of the budget from 0, below 1")


@dataclass(frozen=True)
class Batching:
    """A batch section as the loop wants it, once it is known how long the longest row is."""

    rows: int
    length: int
    microbatch: int | Literal["auto"]
    ramp: float


@dataclass(frozen=True)
class TuningRecipe:
    """A recipe, checked section by section. budget is None where nothing is to be trained (budget.steps=0)."""

    task: Task
    tuning: TuningOptions
    data: DataOptions
    batch: TuningBatch
    optimizer: OptimizerOptions
    schedule: ScheduleOptions
    budget: BudgetOptions | None
    run: RunOptions

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> TuningRecipe:
        sections = sections_of(table, SECTIONS)
        shared = {one.name for one in fields(TuningOptions)}
        if "name" not in sections["task"]:
            raise ConfigError("[task] says no name", 'give one, such as name = "classify"')
        own = {name: value for name, value in sections["task"].items() if name not in shared}
        kind = task_class(str(sections["task"]["name"]))
        budget = sections["budget"]
        return cls(
            kind.from_recipe(own),
            made(TuningOptions, {name: value for name, value in sections["task"].items() if name in shared}, "task"),
            DataOptions.of(sections["data"]),
            made(TuningBatch, sections["batch"], "batch"),
            made(OptimizerOptions, sections["optimizer"], "optimizer"),
            made(ScheduleOptions, sections["schedule"], "schedule"),
            None if list(budget.values()) == [0] else made(BudgetOptions, budget, "budget"),
            made(RunOptions, sections["run"], "run"),
        )

    def seeded(self, seed: int) -> TuningRecipe:
        """The same with another seed, and none of several."""
        return replace(self, run=replace(self.run, seed=seed), tuning=replace(self.tuning, seeds=(), folds=0))

    def resolved(self) -> Table:
        """The whole recipe with nothing left to defaults, as it is kept in the run."""
        task = {name: value for name, value in asdict(self.task).items() if name not in self.task.drawn}
        sections = {name: asdict(getattr(self, name)) for name in ("batch", "optimizer", "schedule", "run")}
        budget = {"steps": 0} if self.budget is None else asdict(self.budget)
        return {"task": {**asdict(self.tuning), **task}, "data": self.data.table(), **sections, "budget": budget}
