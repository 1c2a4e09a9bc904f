"""Texts, or pairs of texts, to a number: similarity, grades."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bertworks.errors import ConfigError, InputError
from bertworks.metrics import Scores
from bertworks.models.encoder import Model
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.contract import Loss, Losses

from .batches import FeatureBatch
from .classify import check_teacher, pooled_rows, texts_of
from .data import Row, Table, Text
from .features import Features, encode
from .losses import counted, on, pooled, scored, shared
from .task import Output, Prediction, Task, Wrong


@dataclass(frozen=True)
class Regress(Task):
    """normalise: learn scores less their mean, over their spread, and put both into the last layer when all is learnt:
    the model that is written answers on the scale of the data. long, overlap, pooling and teacher as in `classify`.
    """

    name: ClassVar[str] = "regress"
    reads: ClassVar[str] = "regress"
    heads: ClassVar[tuple[str, ...]] = ("classify",)
    figure: ClassVar[str] = "spearman"
    drawn: ClassVar[tuple[str, ...]] = ("length", "labels", "center", "spread")

    normalise: bool = True
    long: Literal["cut", "windows"] = "cut"
    overlap: int = 32
    pooling: Literal["mean", "max", "first"] = "mean"
    teacher: str = ""
    teacher_temperature: float = 1.0
    teacher_weight: float = 0.5
    center: float = 0.0
    spread: float = 1.0

    def __post_init__(self) -> None:
        if self.overlap < 0:
            raise ConfigError(f"task.overlap is {self.overlap}", "it is 0 or more")
        check_teacher(self.teacher_temperature, self.teacher_weight)

    @property
    def outputs_named(self) -> tuple[str, ...]:
        return ("score",)

    @property
    def config_keys(self) -> dict[str, Any]:
        return {"problem_type": "regression"}

    def learning(self, train: Table) -> Self:
        scores = gold(train.rows)
        if not len(scores) or np.ptp(scores) == 0:
            said = f"{train.file}: every row has the score {scores[0]:g}" if len(scores) else f"{train.file}: no scores"
            raise InputError(said, "two different ones at least are wanted to learn from")
        if not self.normalise:
            return self
        return replace(self, center=float(scores.mean()), spread=float(scores.std()))

    def features(self, rows: Sequence[Row], tokenizer: Tokenizer, taught: bool) -> Features:
        found = encode(tokenizer, texts_of(rows), self.length, overlap=self.overlap if self.long == "windows" else None)
        if not taught:
            return found
        return found.teaching(per_unit={"scores": ((gold(rows) - self.center) / self.spread).astype(np.float32)})

    def loss(self) -> Loss:
        return _Loss(self)

    def outputs(self, module: nn.Module, batch: FeatureBatch) -> list[Output]:
        return list(scored(module, batch, "classify").cpu().numpy())

    def decode(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> list[Prediction]:
        found = pooled_rows(len(rows), features, outputs, self.pooling, 1)[:, 0] * self.spread + self.center
        return [{"score": one} for one in found.tolist()]

    def score(
        self, rows: Sequence[Row], predictions: Sequence[Prediction], seed: int = 0, resamples: int = 1000
    ) -> Scores:
        from bertworks.metrics.scoring import score_regress

        return score_regress(gold(rows), [one["score"] for one in predictions], seed, resamples)

    def settled(self, model: Model) -> Self:
        last = cast(nn.Linear, model.heads["classify"].get_submodule("scores"))
        with torch.no_grad():
            last.weight.mul_(self.spread)
            last.bias.mul_(self.spread).add_(self.center)
        return replace(self, center=0.0, spread=1.0)

    def mistakes(self, rows: Sequence[Row], predictions: Sequence[Prediction], most: int = 50) -> list[Wrong]:
        apart = np.abs(gold(rows) - np.array([one["score"] for one in predictions]))
        found = []
        for at in np.argsort(-apart, kind="stable")[:most].tolist():
            row = cast(Text, rows[at])
            told = f"{predictions[at]['score']:.2f}"
            found.append(Wrong(row.text, f"{row.score:g}", told, None, row.line, row.text_b or ""))
        return found


class _Loss:
    """The squared error, and that to a teacher's score."""

    def __init__(self, task: Regress) -> None:
        self.task = task

    def counts(self, batch: FeatureBatch) -> dict[str, int]:
        return counted(batch)

    def __call__(
        self, module: nn.Module, batch: FeatureBatch, counts: Mapping[str, int], accuracy: bool
    ) -> Losses:  # fmt: skip
        del accuracy
        scores = pooled(scored(module, batch, "classify"), batch, self.task.pooling)[:, 0]
        each = (scores - on(scores, batch.per_unit["scores"])) ** 2
        if "teacher" in batch.per_unit:
            teacher = (on(scores, batch.per_unit["teacher"]).to(scores)[:, 0] - self.task.center) / self.task.spread
            share = self.task.teacher_weight
            each = (1 - share) * each + share * (scores - teacher) ** 2
        return shared(each.sum(), counts)


def gold(rows: Sequence[Row]) -> NDArray[np.float64]:
    return np.array([cast(Text, row).score for row in rows], np.float64)
