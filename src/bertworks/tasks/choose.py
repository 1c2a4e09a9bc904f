"""Questions with several choices of which one is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.metrics import Scores
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.contract import Loss, Losses

from .batches import FeatureBatch
from .data import Choice, Row
from .features import Features, Item, encode
from .losses import on, scored
from .losses import shared as share_of
from .task import Output, Prediction, Task, Wrong


@dataclass(frozen=True)
class Choose(Task):
    """Each choice is read behind its context and question, and gets a score; the choices of a question compete. A
    context too long is cut.
    """

    name: ClassVar[str] = "choose"
    reads: ClassVar[str] = "choose"
    heads: ClassVar[tuple[str, ...]] = ("choose",)
    drawn: ClassVar[tuple[str, ...]] = ("length", "labels")

    def features(self, rows: Sequence[Row], tokenizer: Tokenizer, taught: bool) -> Features:
        questions = [cast(Choice, row) for row in rows]
        found = encode(tokenizer, [one for row in questions for one in _items(row)], self.length)
        owners = np.repeat(np.arange(len(rows)), [len(row.choices) for row in questions])
        found = replace(found, rows=owners, units=owners.copy())
        return found.teaching(per_unit={"labels": [row.label for row in questions]}) if taught else found

    def loss(self) -> Loss:
        return _Loss()

    def outputs(self, module: nn.Module, batch: FeatureBatch) -> list[Output]:
        return list(scored(module, batch, "choose").cpu().numpy())

    def decode(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> list[Prediction]:
        found = []
        for row, places in zip(rows, features.of_rows(len(rows)), strict=True):
            scores = np.array([outputs[at][0] for at in places], np.float64)
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
            at = int(shares.argmax())
            found.append({"label": at, "choice": cast(Choice, row).choices[at], "scores": shares.tolist()})
        return found

    def score(
        self, rows: Sequence[Row], predictions: Sequence[Prediction], seed: int = 0, resamples: int = 1000
    ) -> Scores:
        from bertworks.metrics.scoring import score_choose

        gold = [-1 if (label := cast(Choice, row).label) is None else label for row in rows]
        return score_choose(gold, [one["scores"] for one in predictions], seed, resamples)

    def mistakes(self, rows: Sequence[Row], predictions: Sequence[Prediction], most: int = 50) -> list[Wrong]:
        found = []
        for row, said in zip(rows, predictions, strict=True):
            one = cast(Choice, row)
            if one.label is not None and said["label"] != one.label:
                right, sure = one.choices[one.label], max(said["scores"])
                found.append(Wrong(one.context, right, said["choice"], sure, one.line, one.question))
        return sorted(found, key=lambda wrong: -(wrong.probability or 0))[:most]


class _Loss:
    """Cross entropy over the choices of each question, however many it has."""

    def counts(self, batch: FeatureBatch) -> dict[str, int]:
        return {"units": batch.unit_count, "tokens": batch.tokens}

    def __call__(self, module: nn.Module, batch: FeatureBatch, counts: Mapping[str, int], accuracy: bool) -> Losses:
        scores = _side_by_side(scored(module, batch, "choose")[:, 0], batch)
        gold = on(scores, batch.per_unit["labels"])
        facts = {"accuracy": float((scores.argmax(1) == gold).sum())} if accuracy else {}
        return share_of(functional.cross_entropy(scores, gold, reduction="sum"), counts, facts)


def _side_by_side(scores: Tensor, batch: FeatureBatch) -> Tensor:
    """[rows] -> [units, most choices], -inf where a question has fewer."""
    within = np.arange(len(batch.units)) - batch.firsts[batch.units]
    table = scores.new_full((batch.unit_count, int(within.max()) + 1), float("-inf"))
    return table.index_put((torch.from_numpy(batch.units).to(scores.device), on(scores, within)), scores)


def _items(row: Choice) -> list[Item]:
    """Context and question with a choice; the question alone where there is no context."""
    if row.context and row.question:
        return [(row.context, f"{row.question} {choice}") for choice in row.choices]
    before = row.context or row.question
    return [(before, choice) if before else choice for choice in row.choices]
