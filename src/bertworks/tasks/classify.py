"""Texts, or pairs of texts, to one label each, or to several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from bertworks.errors import ConfigError, tell
from bertworks.metrics import Scores
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.contract import Loss, Losses

from .batches import FeatureBatch
from .data import Labels, Row, Table, Text
from .data.read import Say
from .features import Features, encode
from .losses import counted, on, pooled, scored, shared
from .task import Output, Prediction, Task, Wrong

FEWEST = 100  # held-out rows that a temperature is fitted on
HEAVIEST = 20.0  # the most that a rare label's examples count for
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Classify(Task):
    """several: a row has any number of labels, each decided by itself. A recipe need not say it of files with lists.

    class_weights: balanced makes every label count alike in all; focal: how much less what is already right counts (2
    is usual); label_smoothing: what share of the target all labels get. long: texts beyond `length` are cut, or read
    in windows that share `overlap` tokens, whose scores are pooled. tune: thresholds of several labels are fitted on
    dev, for each its best F1. calibrate: so is a temperature, which makes probabilities mean what they say.

    teacher: a MODEL whose probabilities are learnt from too, softened by a temperature, at a weight beside the labels.
    """

    name: ClassVar[str] = "classify"
    reads: ClassVar[str] = "classify"
    heads: ClassVar[tuple[str, ...]] = ("classify",)
    drawn: ClassVar[tuple[str, ...]] = ("length", "thresholds", "temperature", "weights")

    several: bool = False
    class_weights: Literal["none", "balanced"] = "none"
    focal: float = 0.0
    label_smoothing: float = 0.0
    long: Literal["cut", "windows"] = "cut"
    overlap: int = 32
    pooling: Literal["mean", "max", "first"] = "mean"
    tune: bool = True
    calibrate: bool = True
    teacher: str = ""
    teacher_temperature: float = 2.0
    teacher_weight: float = 0.5
    weights: tuple[float, ...] = ()
    thresholds: tuple[float, ...] = ()
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.focal < 0 or not 0 <= self.label_smoothing < 1 or self.overlap < 0:
            raise ConfigError(
                f"task has focal {self.focal}, label_smoothing {self.label_smoothing}, overlap {self.overlap}",
                "focal and overlap are 0 or more, label_smoothing is a share below 1",
            )
        check_teacher(self.teacher_temperature, self.teacher_weight)

    @property
    def judged_by(self) -> tuple[str, bool]:
        return ("f1_micro", True) if self.several and not self.metric else super().judged_by

    @property
    def config_keys(self) -> dict[str, Any]:
        return {"problem_type": f"{'multi' if self.several else 'single'}_label_classification"}

    def learning(self, train: Table) -> Self:
        several = self.several or train.several
        found = Labels.of(replace(train, several=several))
        labels = found.names
        if self.labels:
            Labels(self.labels).require(train)
            labels = self.labels
        made = replace(self, labels=labels, several=several)
        return (
            replace(made, weights=_balanced(made.gold(train.rows), several)) if self.class_weights != "none" else made
        )

    def require(self, table: Table, say: Say = tell) -> None:  # noqa: ARG002
        Labels(self.labels).require(table)

    # -- from rows to predictions ------------------------------------------------------------------------------

    def features(self, rows: Sequence[Row], tokenizer: Tokenizer, taught: bool) -> Features:
        found = encode(tokenizer, texts_of(rows), self.length, overlap=self.overlap if self.long == "windows" else None)
        return found.teaching(per_unit={"labels": self.gold(rows)}) if taught else found

    def loss(self) -> Loss:
        return _Loss(self)

    def outputs(self, module: nn.Module, batch: FeatureBatch) -> list[Output]:
        return list(scored(module, batch, "classify").cpu().numpy())

    def decode(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> list[Prediction]:
        table = self.probabilities(self.logits(len(rows), features, outputs))
        if self.several:
            cuts = np.array(self.thresholds or [0.5] * len(self.labels))
            return [
                {
                    "labels": [name for name, sure in zip(self.labels, one >= cuts, strict=True) if sure],
                    "scores": dict(zip(self.labels, one.tolist(), strict=True)),
                }
                for one in table
            ]
        return [
            {
                "label": self.labels[at],
                "score": float(one[at]),
                "scores": dict(zip(self.labels, one.tolist(), strict=True)),
            }
            for one, at in zip(table, table.argmax(1).tolist(), strict=True)
        ]

    def score(
        self, rows: Sequence[Row], predictions: Sequence[Prediction], seed: int = 0, resamples: int = 1000
    ) -> Scores:
        from bertworks.metrics.scoring import score_classify

        cuts = self.thresholds if self.several and self.thresholds else None
        return score_classify(self.gold(rows), self._table(predictions), self.labels, cuts, seed, resamples)

    def fitted(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> Self:
        from bertworks.metrics.calibration import COLDEST, HOTTEST, temperature, thresholds

        logits, gold = self.logits(len(rows), features, outputs), self.gold(rows)
        made = self
        if self.calibrate and len(rows) >= FEWEST:
            found = temperature(logits, gold)
            # At a bound, held-out rows are too easy or too hard to tell one.
            made = replace(made, temperature=found if COLDEST < found < HOTTEST else 1.0)
        if self.tune and self.several:
            cuts = thresholds(made.probabilities(logits), gold)
            made = replace(made, thresholds=tuple(float(one) for one in cuts))
        return made

    def mistakes(self, rows: Sequence[Row], predictions: Sequence[Prediction], most: int = 50) -> list[Wrong]:
        table, gold = self._table(predictions), self.gold(rows)
        if self.several:
            chosen = np.array([[name in one["labels"] for name in self.labels] for one in predictions])
            worst = (np.abs(table - gold) * (chosen != gold)).max(1)
        else:
            worst = np.where(table.argmax(1) != gold, table.max(1), 0.0)
        found = []
        for at in np.argsort(-worst, kind="stable")[:most].tolist():
            if not worst[at]:
                break
            row, said = cast(Text, rows[at]), predictions[at]
            told = ", ".join(said["labels"]) if self.several else said["label"]
            sure = None if self.several else said["score"]
            found.append(Wrong(row.text, ", ".join(row.labels or ()), told, sure, row.line, row.text_b or ""))
        return found

    # -- in between --------------------------------------------------------------------------------------------

    def gold(self, rows: Sequence[Row]) -> NDArray[np.int64]:
        """[rows] numbers of labels; of several labels [rows, labels] of 0 and 1."""
        names = Labels(self.labels)
        if not self.several:
            return np.array([names.id(cast(Text, row).label or "", row) for row in rows], np.int64)
        found = np.zeros((len(rows), len(names)), np.int64)
        for at, row in enumerate(rows):
            found[at, [names.id(one, row) for one in cast(Text, row).labels or ()]] = 1
        return found

    def logits(self, count: int, features: Features, outputs: Sequence[Output]) -> Floats:
        """[rows, labels], windows pooled."""
        return pooled_rows(count, features, outputs, self.pooling, len(self.labels))

    def probabilities(self, logits: Floats) -> Floats:
        scaled = logits / self.temperature
        if self.several:
            return np.asarray(np.exp(-np.logaddexp(0, -scaled)))
        scaled = scaled - scaled.max(1, keepdims=True)
        shares = np.exp(scaled)
        return np.asarray(shares / shares.sum(1, keepdims=True))

    def _table(self, predictions: Sequence[Prediction]) -> Floats:
        return np.array([[one["scores"][name] for name in self.labels] for one in predictions], np.float64)


class _Loss:
    """Cross entropy of the labels, or of each label by itself; and of the teacher's."""

    def __init__(self, task: Classify) -> None:
        self.task = task
        self.weights = torch.tensor(task.weights) if task.weights else None

    def counts(self, batch: FeatureBatch) -> dict[str, int]:
        return counted(batch)

    def __call__(self, module: nn.Module, batch: FeatureBatch, counts: Mapping[str, int], accuracy: bool) -> Losses:
        scores = pooled(scored(module, batch, "classify"), batch, self.task.pooling)
        gold = on(scores, batch.per_unit["labels"])
        each = self._several(scores, gold) if self.task.several else self._single(scores, gold)
        if "teacher" in batch.per_unit:
            share = self.task.teacher_weight
            each = (1 - share) * each + share * self._taught(scores, on(scores, batch.per_unit["teacher"]))
        facts = {}
        if accuracy:
            right = ((scores > 0) == gold).all(1) if self.task.several else scores.argmax(1) == gold
            facts["accuracy"] = float(right.sum())
        return shared(each.sum(), counts, facts)

    def _single(self, scores: Tensor, gold: Tensor) -> Tensor:
        weights = None if self.weights is None else self.weights.to(scores)
        each = functional.cross_entropy(
            scores, gold, weights, reduction="none", label_smoothing=self.task.label_smoothing
        )
        if self.task.focal:
            sure = scores.softmax(-1).gather(1, gold[:, None])[:, 0]
            each = each * (1 - sure) ** self.task.focal
        return each

    def _several(self, scores: Tensor, gold: Tensor) -> Tensor:
        target = gold.to(scores.dtype) * (1 - self.task.label_smoothing) + self.task.label_smoothing / 2
        weights = None if self.weights is None else self.weights.to(scores)
        each = functional.binary_cross_entropy_with_logits(scores, target, pos_weight=weights, reduction="none")
        if self.task.focal:
            sure = torch.where(gold > 0, scores, -scores).sigmoid()
            each = each * (1 - sure) ** self.task.focal
        return each.mean(1)

    def _taught(self, scores: Tensor, teacher: Tensor) -> Tensor:
        """Of softened probabilities; times the temperature squared, so that gradients keep their size (Hinton 2015)."""
        heat = self.task.teacher_temperature
        ours, theirs = scores / heat, teacher.to(scores) / heat
        if self.task.several:
            apart = functional.binary_cross_entropy_with_logits(ours, theirs.sigmoid(), reduction="none")
            return heat**2 * apart.mean(1)
        return heat**2 * functional.kl_div(
            ours.log_softmax(-1), theirs.log_softmax(-1), reduction="none", log_target=True
        ).sum(1)


def texts_of(rows: Sequence[Row]) -> list[Any]:
    """A text each, or a pair."""
    found = []
    for row in rows:
        one = cast(Text, row)
        found.append(one.text if one.text_b is None else (one.text, one.text_b))
    return found


def pooled_rows(count: int, features: Features, outputs: Sequence[Output], how: str, width: int) -> Floats:
    """[rows, width] from what was said of each window: `losses.pooled`, outside of training."""
    table = np.asarray(outputs, np.float64).reshape(len(features), width)
    if len(features) == count:
        return table
    firsts = np.searchsorted(features.rows, np.arange(count))
    if how == "first":
        return table[firsts]
    if how == "max":
        return np.maximum.reduceat(table, firsts)
    return np.asarray(np.add.reduceat(table, firsts) / np.bincount(features.rows, minlength=count)[:, None])


def check_teacher(temperature: float, weight: float) -> None:
    if temperature <= 0 or not 0 <= weight <= 1:
        raise ConfigError(
            f"task.teacher_temperature is {temperature}, task.teacher_weight {weight}",
            "the temperature is above 0, the weight a share from 0 to 1",
        )


def _balanced(gold: NDArray[np.int64], several: bool) -> tuple[float, ...]:
    """Weights with which every label counts alike, 1 on average over the rows; of several labels, what a yes counts."""
    if several:
        yes = np.maximum(gold.sum(0), 1)
        return tuple(np.clip((len(gold) - yes) / yes, 1 / HEAVIEST, HEAVIEST).tolist())
    sizes = np.maximum(np.bincount(gold), 1)
    return tuple(np.minimum(len(gold) / (len(sizes) * sizes), HEAVIEST).tolist())
