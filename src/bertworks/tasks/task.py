# ruff: noqa: ARG002, B027 (a base class: what a task does not need it leaves as it is)
"""What a task is: one frozen object that reads, featurises, learns, decodes and scores, and is kept beside the weights.

Evaluation while training, `evaluate`, `predict` and Python all go one way (see docs/finetuning.md):

    rows ── features ──► batches ── outputs ──► decode ──► predictions ── score ──► Scores
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bertworks.config import made
from bertworks.errors import ConfigError, tell
from bertworks.metrics import Scores
from bertworks.models.encoder import Model
from bertworks.models.folder import Description
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.contract import Loss

from .batches import FeatureBatch
from .data import Row, Table
from .data.read import Say
from .features import Features

FILE = "task.json"
FORMAT = 1
Output = NDArray[np.float32]
Prediction = dict[str, Any]  # JSON's own types


@dataclass(frozen=True)
class Wrong:
    """One wrong answer, for a report. spans: (start, end, "gold" or "predicted", label) in characters of text."""

    text: str
    gold: str
    predicted: str
    probability: float | None = None
    line: int | None = None
    text_b: str = ""
    spans: tuple[tuple[int, int, str, str], ...] = ()


@dataclass(frozen=True)
class Task(ABC):
    """The base of all tasks. A subclass is a frozen dataclass: its fields are the keys of the recipe's [task] section
    and what was learnt beside the weights (labels, thresholds, a temperature); all have defaults.

    `reads` is the task whose rows it reads (see tasks/data); `heads` what it needs on the model; `drawn` those of its
    fields that nobody sets in a recipe; `figure` the figure of Scores that the best weights are picked by where the
    recipe's `metric` names no other.

    labels  what the model's config.json calls its outputs; left empty, the training data's
    length  tokens of a feature at most; the frame sets it from batch.length, or to what the model takes
    """

    name: ClassVar[str]
    reads: ClassVar[str]
    heads: ClassVar[tuple[str, ...]] = ()
    drawn: ClassVar[tuple[str, ...]] = ("length",)
    smaller: ClassVar[tuple[str, ...]] = ("log_loss", "brier", "calibration_error", "mse", "rmse", "mae")
    figure: ClassVar[str] = "accuracy"

    labels: tuple[str, ...] = ()
    length: int = 0
    metric: str = ""

    # -- from a recipe and from a folder -----------------------------------------------------------------------

    @classmethod
    def from_recipe(cls, table: Mapping[str, Any]) -> Self:
        """Of a recipe's [task] section, without the keys that are the frame's."""
        for name in table:
            if name in cls.drawn:
                raise ConfigError(f"task.{name} is not a recipe's to say", "it is found while training")
        return made(cls, table, "task")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Self:
        known = {field.name for field in fields(cls)}
        return made(cls, {name: value for name, value in settings.items() if name in known}, FILE)

    def settings(self) -> dict[str, Any]:
        """For task.json: whatever a prediction depends on."""
        return {"format": FORMAT, "task": self.name, **asdict(self)}

    def upon(self, folder: Path) -> Self:
        """The task with what the starting model's folder tells, where the recipe leaves it open."""
        return self

    def learning(self, train: Table) -> Self:
        """The task with what the training rows tell: their labels, as a rule. Errors where nothing can be learnt."""
        return self

    def require(self, table: Table, say: Say = tell) -> None:
        """Hold a dev or test file to what was learnt: unknown labels are an error at their line, or are told."""

    def begun(self, length: int) -> Self:
        """With the length of its features set."""
        return replace(self, length=length)

    @property
    def config_keys(self) -> dict[str, Any]:
        """What else config.json says, for whoever loads the model without us."""
        return {}

    @property
    def outputs_named(self) -> tuple[str, ...]:
        """What config.json's id2label says: a name for each output of the head."""
        return self.labels

    def beside(self, folder: Path, description: Description) -> None:
        """Write what else a model folder of this task holds; task.json is the frame's to write."""

    # -- from rows to predictions ------------------------------------------------------------------------------

    @abstractmethod
    def features(self, rows: Sequence[Row], tokenizer: Tokenizer, taught: bool) -> Features:
        """Rows encoded; `taught`: with the targets that the loss wants. Places of rows are those in `rows`."""

    @abstractmethod
    def loss(self) -> Loss:
        """What is minimised, as train/contract has it: `counts(batch)` are summed over the global batch (`tokens` among
        them), and the loss of a microbatch, divided by those sums, is its share of the global batch's.
        """

    @abstractmethod
    def outputs(self, module: nn.Module, batch: FeatureBatch) -> list[Output]:
        """What the model says of each feature of a batch, in its order, in fp32, without padding. The module is in
        evaluation mode, and no gradients are kept.
        """

    @abstractmethod
    def decode(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> list[Prediction]:
        """A prediction for each row, from the outputs of its features (`features.of_rows`): windows are pooled, choices
        compared, offsets put back. outputs[i] is of feature i.
        """

    @abstractmethod
    def score(
        self, rows: Sequence[Row], predictions: Sequence[Prediction], seed: int = 0, resamples: int = 1000
    ) -> Scores:
        """Figures of predictions against what the rows say."""

    def fitted(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> Self:
        """After training: with what is tuned on held-out rows, such as thresholds or a temperature."""
        return self

    def settled(self, model: Model) -> Self:
        """Before the model is written: what was learnt on another scale may be put into its weights."""
        return self

    def mistakes(self, rows: Sequence[Row], predictions: Sequence[Prediction], most: int = 50) -> list[Wrong]:
        """The worst answers first."""
        return []

    @property
    def judged_by(self) -> tuple[str, bool]:
        """The figure of Scores that picks the best weights, and whether larger is better."""
        name = self.metric or self.figure
        return name, name not in self.smaller


def read_settings(folder: Path) -> dict[str, Any] | None:
    """A model folder's task.json; None where it has none."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}", "fine-tune again, or take the file from a copy") from None
    if not isinstance(found, dict) or not isinstance(found.get("task"), str):
        raise ConfigError(f"{path} does not say its task", "fine-tune again, or take the file from a copy")
    if found.get("format", 0) > FORMAT:
        raise ConfigError(f"{path} is of a later version of this program", "take a newer one")
    return found


def write_settings(folder: Path, task: Task) -> None:
    (folder / FILE).write_text(json.dumps(task.settings(), indent=1, ensure_ascii=False) + "\n", encoding="utf8")
