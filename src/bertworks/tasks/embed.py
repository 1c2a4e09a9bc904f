"""Texts to vectors, from pairs of texts that belong together, or from pairs with a score of how near they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn

from bertworks.errors import ConfigError, InputError, tell
from bertworks.metrics import Scores
from bertworks.models.folder import Description
from bertworks.models.sentence import SentenceOptions, read_options, write_options
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.contract import Loss

from .batches import FeatureBatch
from .data import Linked, Row, Table
from .data.read import Say
from .embed_losses import POSITIVE, EmbedLoss, all_sizes, embedded
from .features import Features, encode
from .task import Output, Prediction, Task, Wrong

LOSSES = ("contrastive", "cosent", "cosine", "both")
Floats = NDArray[np.float64]


class Compared(dict[str, Any]):
    """A prediction, with the vectors that it was made of beside it: figures of retrieval want them. vectors: anchor,
    positive, negatives.
    """

    vectors: list[Output]


@dataclass(frozen=True)
class Embed(Task):
    """kind: of the loss. contrastive (each anchor has to find its positive among those of the whole batch, and the
    negatives) is for pairs; cosent, cosine and both of them are for pairs with scores; auto goes by the data. scale:
    what cosines are multiplied by. symmetric: positives have to find their anchors, too. sizes: vectors are to be good
    when they are cut to so many numbers, too.

    pooling auto: as the starting model does, or the mean. normalise: vectors are of length 1. prompt: is put before
    every text.
    """

    name: ClassVar[str] = "embed"
    reads: ClassVar[str] = "embed"
    drawn: ClassVar[tuple[str, ...]] = ("length", "labels", "scored", "low", "high", "lowercase")

    kind: Literal["auto", "contrastive", "cosent", "cosine", "both"] = "auto"
    scale: float = 20.0
    symmetric: bool = False
    sizes: tuple[int, ...] = ()
    pooling: Literal["auto", "mean", "cls", "max"] = "auto"
    normalise: bool = True
    prompt: str = ""
    lowercase: bool = False
    scored: bool = False
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if self.scale <= 0 or any(size < 1 for size in self.sizes):
            raise ConfigError(
                f"task has scale {self.scale}, sizes {list(self.sizes)}", "the scale is above 0, sizes are 1 or more"
            )
        if self.symmetric and self.kind in LOSSES[1:]:
            raise ConfigError(f'task.symmetric is not for task.kind="{self.kind}"', "leave it out")

    @property
    def judged_by(self) -> tuple[str, bool]:
        return (self.metric or ("spearman" if self.scored else "mrr")), True

    # -- from a recipe and to a folder -------------------------------------------------------------------------

    def upon(self, folder: Path) -> Self:
        """As the starting model makes its vectors, where the recipe does not say."""
        options = read_options(folder) if self.pooling == "auto" else None
        if options is None:
            return self if self.pooling != "auto" else replace(self, pooling="mean")
        how = cast(Any, options.how)
        return replace(self, pooling=how, prompt=self.prompt or options.prompt, lowercase=options.lowercase)

    def learning(self, train: Table) -> Self:
        scored = _are_scored(train)
        kind = self.kind if self.kind != "auto" else "cosent" if scored else "contrastive"
        if scored and kind == "contrastive":
            raise ConfigError(
                f"{train.file} has scores, which task.kind=contrastive does not learn from",
                "cosent does; or keep the pairs that belong together, without the column of scores",
            )
        if not scored and kind != "contrastive":
            raise ConfigError(f"{train.file} has no scores, which task.kind={kind} learns from", "contrastive does not")
        made = replace(self, kind=cast(Any, kind), scored=scored)
        if not scored:
            return made
        scores = [cast(Linked, row).score or 0.0 for row in train.rows]
        low, high = min(scores), max(scores)
        if low == high:
            raise InputError(f"{train.file}: every row has the score {low:g}", "two different ones at least are wanted")
        # Scores that cosines can reach are left as they are; others are stretched over 0 to 1.
        return made if low >= -1 and high <= 1 else replace(made, low=low, high=high)

    def require(self, table: Table, say: Say = tell) -> None:
        if self.kind != "auto" and _are_scored(table) != self.scored:
            has = "no scores, which training has" if self.scored else "scores, which training has not"
            say(f"{table.file} has {has}: its figures are others")

    def beside(self, folder: Path, description: Description) -> None:
        write_options(folder, self.options, description.config.hidden_size)

    @property
    def options(self) -> SentenceOptions:
        return SentenceOptions(self._pooling, self.normalise, self.length or None, self.lowercase, self.prompt)

    @property
    def _pooling(self) -> str:
        return "mean" if self.pooling == "auto" else self.pooling

    # -- from rows to predictions ------------------------------------------------------------------------------

    def features(self, rows: Sequence[Row], tokenizer: Tokenizer, taught: bool) -> Features:
        pairs = [cast(Linked, row) for row in rows]
        texts = [[self._prepared(text) for text in (one.anchor, one.positive, *one.negatives)] for one in pairs]
        found = encode(tokenizer, [text for some in texts for text in some], self.length)
        owners = np.repeat(np.arange(len(rows)), [len(some) for some in texts])
        found = replace(found, rows=owners, units=owners.copy())
        if not taught:
            return found
        scores = [((one.score or 0.0) - self.low) / (self.high - self.low) for one in pairs]
        marks = [
            (role, number_of(text), score)
            for some, score in zip(texts, scores, strict=True)
            for role, text in enumerate(some)
        ]
        return found.teaching(per_feature={"marks": np.array(marks, np.float64)})

    def _prepared(self, text: str) -> str:
        return self.prompt + (text.lower() if self.lowercase else text)

    def loss(self) -> Loss:
        return EmbedLoss(self.kind, self.scale, self.symmetric, self.sizes, self._pooling)

    def outputs(self, module: nn.Module, batch: FeatureBatch) -> list[Output]:
        return list(embedded(module, batch, self._pooling).float().cpu().numpy())

    def decode(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> list[Prediction]:
        found: list[Prediction] = []
        for places in features.of_rows(len(rows)):
            one = Compared(score=float(_cosine(outputs[places[0]], outputs[places[POSITIVE]])))
            one.vectors = [outputs[at] for at in places]
            found.append(one)
        return found

    def score(
        self, rows: Sequence[Row], predictions: Sequence[Prediction], seed: int = 0, resamples: int = 1000
    ) -> Scores:
        pairs, made = [cast(Linked, row) for row in rows], [cast(Compared, one).vectors for one in predictions]
        *smaller, width = all_sizes(self.sizes, len(made[0][0]))
        scores = _scores(pairs, made, width, seed, resamples)
        first = "spearman" if "spearman" in scores.metrics else "mrr"
        scores = replace(scores, metrics={first: scores.metrics[first], **scores.metrics})
        for size in reversed(smaller):
            cut = _scores(pairs, made, size, seed, 1)
            scores.metrics.update({f"{name}_{size}": value for name, value in cut.metrics.items()})
        return scores

    def mistakes(self, rows: Sequence[Row], predictions: Sequence[Prediction], most: int = 50) -> list[Wrong]:
        """Of pairs with scores, those whose rank by cosine is furthest from that by score."""
        from bertworks.metrics.regression import ranks

        pairs = [cast(Linked, row) for row in rows]
        gold = [one.score for one in pairs if one.score is not None]
        if len(gold) < len(pairs):
            return []
        apart = np.abs(ranks(gold) - ranks([one["score"] for one in predictions]))
        return [
            Wrong(one.anchor, f"{one.score:g}", f"{predictions[at]['score']:.2f}", None, one.line, one.positive)
            for at in np.argsort(-apart, kind="stable")[:most].tolist()
            for one in (pairs[at],)
        ]


def _scores(pairs: list[Linked], made: list[list[Output]], size: int, seed: int, resamples: int) -> Scores:
    """Cosines against scores; without scores, whether each anchor finds its positives among all that are offered."""
    from bertworks.metrics.scoring import score_embed, score_retrieve

    gold = [one.score for one in pairs if one.score is not None]
    if len(gold) == len(pairs):
        left, right = (np.array([some[at][:size] for some in made]) for at in (0, POSITIVE))
        return score_embed(gold, left, right, seed, resamples)
    queries: dict[str, Output] = {}
    documents: dict[str, Output] = {}
    wanted: dict[str, set[str]] = {}
    for one, vectors in zip(pairs, made, strict=True):
        for text, vector in zip((one.positive, *one.negatives), vectors[1:], strict=True):
            documents.setdefault(text, vector[:size])
        queries.setdefault(one.anchor, vectors[0][:size])
        wanted.setdefault(one.anchor, set()).add(one.positive)
    places = {text: at for at, text in enumerate(documents)}
    relevant = [[places[text] for text in some] for some in wanted.values()]
    asked, offered = (np.array(list(some.values()), np.float64) for some in (queries, documents))
    return score_retrieve(asked, offered, relevant, seed, resamples)


def _are_scored(table: Table) -> bool:
    """Whether rows have scores; all of them, or none."""
    scored = [cast(Linked, row).score is not None for row in table.rows]
    if any(scored) and not all(scored):
        row = table.rows[scored.index(False)]
        raise InputError(f"{row.place}: no score, which other rows have", "give the row one or take it out")
    return bool(scored) and scored[0]


def _cosine(one: Output, other: Output) -> float:
    left, right = one.astype(np.float64), other.astype(np.float64)
    sizes = float(np.linalg.norm(left)) * float(np.linalg.norm(right))
    return float(left @ right) / max(sizes, 1e-12)


def number_of(text: str) -> float:
    """A number that only texts have in common which say the same, case and white space aside; exact in fp64."""
    said = " ".join(text.split()).casefold().encode("utf8", "replace")
    return float(int.from_bytes(blake2b(said, digest_size=6).digest(), "big"))
