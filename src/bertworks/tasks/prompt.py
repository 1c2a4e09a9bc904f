"""Texts to labels by filling a blank: a pattern around the text, a word for each label (Schick and Schütze 2021)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from bertworks.errors import ConfigError, InputError, tell
from bertworks.metrics import Scores
from bertworks.models.folder import stored_parts
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.contract import Loss, Losses

from .batches import FeatureBatch, inputs
from .classify import FEWEST
from .data import Labels, Row, Table, Text
from .data.read import Say
from .features import Features
from .losses import counted, on, shared
from .prompt_pattern import Pattern, features_of, listed, tokens_of, words_of
from .task import Output, Prediction, Task, Wrong

Floats = NDArray[np.float64]
NEVER = -1  # a token of no word


@dataclass(frozen=True)
class Prompt(Task):
    """pattern: a text with one [MASK], {text} and, of pairs, {text_b}; where it is too long, the texts are cut. words:
    "label=word" for each label, or a table of them; a label may have several, and is as likely as they are on average.
    A word of several tokens is asked for with as many masks, and is as likely as its tokens are on geometric average.

    neutral: texts that say nothing, such as "" or "N/A": each word's probability is divided by the one that it has
    there, which makes up for words that the model likes anyway (Zhao et al. 2021). balanced: each label's mean
    log-probability over the held-out texts is taken off, for labels that are about as frequent; which text has which is
    not looked at. Both are for a model that is not trained on the labels. calibrate: a temperature is fitted on dev,
    which makes probabilities mean what they say.
    """

    name: ClassVar[str] = "prompt"
    reads: ClassVar[str] = "classify"
    heads: ClassVar[tuple[str, ...]] = ("masked_lm",)
    drawn: ClassVar[tuple[str, ...]] = ("length", "labels", "temperature", "usual")

    pattern: str = ""
    words: tuple[str, ...] = ()
    neutral: tuple[str, ...] = ()
    balanced: bool = False
    calibrate: bool = True
    temperature: float = 1.0
    usual: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.pattern:
            Pattern.of(self.pattern)
        if self.words:
            labels = tuple(dict.fromkeys(label for label, _ in words_of(self.words)))
            if len(labels) < 2:
                raise ConfigError(f"task.words names the label {labels[0]!r} alone", "two at least are wanted")
            object.__setattr__(self, "labels", labels)

    @classmethod
    def from_recipe(cls, table: Mapping[str, Any]) -> Self:
        if isinstance(table.get("words"), Mapping):
            table = {**table, "words": listed(table["words"])}
        made = super().from_recipe(table)
        if not made.pattern:
            raise ConfigError("task.pattern is missing", 'such as "It was [MASK]. {text}"')
        if not made.words:
            raise ConfigError("task.words is missing", 'a word for each label, such as ["0=terrible", "1=great"]')
        return made

    def upon(self, folder: Path) -> Self:
        if "masked_lm" not in stored_parts(folder)[1]:
            tell(
                f"{folder} has no trained masked-language-model head: what it says in a blank is chance until it is "
                "trained; start with a masked-LM model, or take `finetune classify`"
            )
        return self

    def learning(self, train: Table) -> Self:
        if train.several:
            raise ConfigError(f"{train.file}: rows have several labels", "a blank is filled with one; use classify")
        self.require(train)
        pairs = any(cast(Text, row).text_b for row in train.rows)
        if pairs and not Pattern.of(self.pattern).pairs:
            tell(f"{train.file} has pairs, but task.pattern no {{text_b}}: the second texts are not read")
        return self

    def require(self, table: Table, say: Say = tell) -> None:  # noqa: ARG002
        for row in table.rows:
            for label in cast(Text, row).labels or ():
                if label not in self.labels:
                    known = ", ".join(self.labels)
                    raise InputError(
                        f"{row.place}: the label {label!r} has no word in task.words, which has {known}",
                        f'give it one: task.words=["{label}=WORD", …]',
                    )

    # -- from rows to predictions ------------------------------------------------------------------------------

    def features(self, rows: Sequence[Row], tokenizer: Tokenizer, taught: bool) -> Features:
        """Neutral texts, where there are any, are features of the first row, before its own."""
        pattern, words = Pattern.of(self.pattern), self._table(tokenizer)
        masks = sorted({int((word != NEVER).sum()) for word in words})
        texts = [cast(Text, row) for row in rows]
        for row in texts:
            if pattern.pairs and row.text_b is None:
                raise InputError(f"{row.place}: no text_b, which task.pattern names", "give pairs of texts")
        before = [] if taught else self._neutral()
        found = features_of(pattern, [*before, *texts], tokenizer, masks, self.length)
        if before:
            owners = np.maximum(found.rows - len(before), 0)
            found = replace(found, rows=owners, units=owners.copy())
        found = found.teaching(per_feature={"words": np.broadcast_to(words, (len(found), *words.shape))})
        if not taught:
            return found
        names = Labels(self.labels)
        gold = [names.id(row.label or "", row) for row in texts]
        return found.teaching(per_unit={"labels": np.array(gold, np.int64)})

    def _neutral(self) -> list[Text]:
        return [Text(file="", line=0, text=one, text_b=one) for one in self.neutral]

    def _table(self, tokenizer: Tokenizer) -> NDArray[np.int64]:
        """[words, most tokens] of each word, NEVER behind its last."""
        tokens = tokens_of(Pattern.of(self.pattern), words_of(self.words), tokenizer)
        table = np.full((len(tokens), max(map(len, tokens))), NEVER, np.int64)
        for row, ids in zip(table, tokens, strict=True):
            row[: len(ids)] = ids
        return table

    def loss(self) -> Loss:
        return _Loss(self)

    def outputs(self, module: nn.Module, batch: FeatureBatch) -> list[Output]:
        return list(likely(module, batch).cpu().numpy())

    def decode(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> list[Prediction]:
        table = self._probabilities(self._scores(len(rows), features, outputs))
        return [
            {
                "label": self.labels[at],
                "score": float(one[at]),
                "scores": dict(zip(self.labels, one.tolist(), strict=True)),
            }
            for one, at in zip(table, table.argmax(1).tolist(), strict=True)
        ]

    def _scores(self, count: int, features: Features, outputs: Sequence[Output]) -> Floats:
        """[rows, labels] log-probabilities of the labels' words."""
        kinds = len(np.unique(features.per_feature["masks"]))
        each = np.asarray(outputs, np.float64).reshape(-1, kinds, len(self.words)).sum(1)
        before = len(each) - count
        if before:  # of what several neutral texts say, the mean probability
            each = each[before:] - np.logaddexp.reduce(each[:before], 0) + np.log(before)
        labels = np.stack([np.logaddexp.reduce(each[:, own], 1) - np.log(len(own)) for own in self.places], 1)
        return labels - np.array(self.usual) if self.usual else labels

    @property
    def places(self) -> list[list[int]]:
        """Which words are each label's."""
        owners = [label for label, _ in words_of(self.words)]
        return [[at for at, owner in enumerate(owners) if owner == label] for label in self.labels]

    def _probabilities(self, scores: Floats) -> Floats:
        scaled = scores / self.temperature
        return np.asarray(np.exp(scaled - np.logaddexp.reduce(scaled, 1)[:, None]))

    def fitted(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> Self:
        from bertworks.metrics.calibration import COLDEST, HOTTEST, temperature

        made = self
        if self.balanced:
            usual = self._scores(len(rows), features, outputs).mean(0)
            made = replace(self, usual=tuple(float(one) for one in usual))
        if not self.calibrate or len(rows) < FEWEST:
            return made
        found = temperature(made._scores(len(rows), features, outputs), self._gold(rows))
        return replace(made, temperature=found if COLDEST < found < HOTTEST else 1.0)

    def score(
        self, rows: Sequence[Row], predictions: Sequence[Prediction], seed: int = 0, resamples: int = 1000
    ) -> Scores:
        from bertworks.metrics.scoring import score_classify

        return score_classify(self._gold(rows), self._said(predictions), self.labels, None, seed, resamples)

    def mistakes(self, rows: Sequence[Row], predictions: Sequence[Prediction], most: int = 50) -> list[Wrong]:
        pairs = [(cast(Text, row), said) for row, said in zip(rows, predictions, strict=True)]
        found = [
            Wrong(row.text, row.label or "", said["label"], said["score"], row.line, row.text_b or "")
            for row, said in pairs
            if row.label != said["label"]
        ]
        return sorted(found, key=lambda wrong: -(wrong.probability or 0))[:most]

    def _gold(self, rows: Sequence[Row]) -> NDArray[np.int64]:
        names = Labels(self.labels)
        return np.array([names.id(cast(Text, row).label or "", row) for row in rows], np.int64)

    def _said(self, predictions: Sequence[Prediction]) -> Floats:
        return np.array([[one["scores"][name] for name in self.labels] for one in predictions], np.float64)


class _Loss:
    """Cross entropy of the labels' words in the blank, among one another."""

    def __init__(self, task: Prompt) -> None:
        self.places = task.places

    def counts(self, batch: FeatureBatch) -> dict[str, int]:
        return counted(batch)

    def __call__(self, module: nn.Module, batch: FeatureBatch, counts: Mapping[str, int], accuracy: bool) -> Losses:
        each = likely(module, batch)
        units = on(each, batch.units)
        words = each.new_zeros((batch.unit_count, each.shape[1])).index_add(0, units, each)
        labels = torch.stack([words[:, own].logsumexp(1) - float(np.log(len(own))) for own in self.places], 1)
        gold = on(labels, batch.per_unit["labels"])
        facts = {"accuracy": float((labels.argmax(1) == gold).sum())} if accuracy else {}
        return shared(functional.cross_entropy(labels, gold, reduction="sum"), counts, facts)


def likely(module: nn.Module, batch: FeatureBatch) -> Tensor:
    """[rows, words] the mean log-probability of each word's tokens in the blank; 0 where it has not as many masks."""
    blank = batch.per_token["blank"]
    rows, columns = np.nonzero(blank >= 0)
    given = inputs(module, batch)
    flat = torch.from_numpy(rows * blank.shape[1] + columns).to(given["ids"].device)
    scores = module(**given, chosen=flat).scores["masked_lm"]
    logs: Tensor = (scores if scores.dtype == torch.float64 else scores.float()).log_softmax(-1)  # [masks, vocabulary]
    words = batch.per_feature["words"][0]
    sizes = (words != NEVER).sum(1)
    asked = np.maximum(words[:, blank[rows, columns]].T, 0)  # [masks, words] the token that each word has here
    meant = batch.per_feature["masks"][rows][:, None] == sizes[None, :]
    shares = on(logs, meant / sizes[None, :]).to(logs.dtype)
    table = logs.new_zeros((len(blank), len(words)))
    found: Tensor = table.index_add(0, on(logs, rows), logs.gather(1, on(logs, asked)) * shares)
    return found
