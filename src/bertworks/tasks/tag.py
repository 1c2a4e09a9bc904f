"""A tag for each word: names, parts of speech, chunks; of words that are given, or of a raw text by its characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from bertworks.errors import ConfigError, InputError, tell
from bertworks.metrics import Scores
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.contract import Loss, Losses

from .batches import FeatureBatch
from .data import Entity, Labels, Row, Table, Tagged
from .data.read import Say
from .data.tags import as_bio, entities, parsed, scheme_of, tags_of
from .features import IGNORED, Features, encode
from .losses import on, scored, shared
from .tag_path import Bio
from .tag_words import Words, carriers
from .task import Output, Prediction, Task, Wrong

OUTSIDE = "O"


@dataclass(frozen=True)
class Tag(Task):
    """The first piece of a word speaks for it; nothing is learnt of its other pieces. Sentences beyond `length` are
    read in windows that share up to `overlap` tokens (a third of the length at most): a word is learnt, and decided, in
    the one where most is around it.

    constrained: of all sequences of tags that BIO allows the likeliest, so no I- stands without its B-; otherwise each
    word's own likeliest. label_smoothing: what share of the target all tags get; focal: how much less what is already
    right counts.
    """

    name: ClassVar[str] = "tag"
    reads: ClassVar[str] = "tag"
    heads: ClassVar[tuple[str, ...]] = ("tag",)

    overlap: int = 64
    constrained: bool = True
    label_smoothing: float = 0.0
    focal: float = 0.0

    def __post_init__(self) -> None:
        if self.focal < 0 or not 0 <= self.label_smoothing < 1 or self.overlap < 0:
            raise ConfigError(
                f"task has focal {self.focal}, label_smoothing {self.label_smoothing}, overlap {self.overlap}",
                "focal and overlap are 0 or more, label_smoothing is a share below 1",
            )

    def learning(self, train: Table) -> Self:
        if not self.labels:
            return replace(self, labels=Labels.of(train).names)
        Labels(self.labels).require(train)
        return self

    def require(self, table: Table, say: Say = tell) -> None:
        Labels(self.labels).require(table, say)

    @property
    def judged_by(self) -> tuple[str, bool]:
        return self.metric or ("accuracy" if self.plain else "f1"), True

    # -- from rows to predictions ------------------------------------------------------------------------------

    def features(self, rows: Sequence[Row], tokenizer: Tokenizer, taught: bool) -> Features:
        words = [Words.of(cast(Tagged, row)) for row in rows]
        overlap = min(self.overlap, self.length // 3)
        found = encode(tokenizer, [one.items for one in words], self.length, overlap=overlap, aligned=True).apart()
        places = carriers(found, [len(one.spans) for one in words])
        _say_lost(rows, words, places, taught)
        if not taught:
            return found
        numbers = {name: at for at, name in enumerate(self.labels)}
        gold = [self._gold(cast(Tagged, row), one) for row, one in zip(rows, words, strict=True)]
        wanted = np.array([numbers.get(tag, IGNORED) for tags in gold for tag in tags], np.int64)
        targets = np.full(len(found.ids), IGNORED, np.int64)
        targets[places[places >= 0]] = wanted[places >= 0]
        return found.teaching(per_token={"tags": targets})

    def loss(self) -> Loss:
        return _Loss(self)

    def outputs(self, module: nn.Module, batch: FeatureBatch) -> list[Output]:
        scores = scored(module, batch, "tag").cpu().numpy()
        return [one[:length] for one, length in zip(scores, batch.lengths.tolist(), strict=True)]

    def decode(self, rows: Sequence[Row], features: Features, outputs: Sequence[Output]) -> list[Prediction]:
        words = [Words.of(cast(Tagged, row)) for row in rows]
        sizes = [len(one.spans) for one in words]
        places = carriers(features, sizes)
        known = places >= 0
        edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        numbers, sure = self._decided(
            np.concatenate(outputs)[places[known]], np.concatenate([[0], np.cumsum(known)])[edges]
        )
        found = np.full(len(places), -1, np.int64)
        found[known] = numbers
        scores = np.ones(len(places))
        scores[known] = sure
        made = []
        for at, (row, one) in enumerate(zip(rows, words, strict=True)):
            place = slice(int(edges[at]), int(edges[at + 1]))
            tags = _filled([self.labels[number] if number >= 0 else "" for number in found[place].tolist()])
            made.append(self._prediction(cast(Tagged, row), one, tags, scores[place]))
        return made

    def score(
        self, rows: Sequence[Row], predictions: Sequence[Prediction], seed: int = 0, resamples: int = 1000
    ) -> Scores:
        """Raw texts by their characters: an entity is right where both its offsets are."""
        from bertworks.metrics.scoring import score_tag

        gold, said = [], []
        for row, one in zip(rows, predictions, strict=True):
            tagged = cast(Tagged, row)
            if tagged.text is None or self.plain:
                gold.append(self._gold(tagged, Words.of(tagged)))
                said.append(one["tags"])
            else:
                gold.append(tags_of(tagged.entities or (), len(tagged.text)))
                said.append(tags_of(_entities(one), len(tagged.text)))
        return score_tag(gold, said, seed=seed, resamples=resamples)

    def mistakes(self, rows: Sequence[Row], predictions: Sequence[Prediction], most: int = 50) -> list[Wrong]:
        """The rows with most that is missed, wrong, or found where nothing is."""
        found = []
        for row, one in zip(rows, predictions, strict=True):
            words = Words.of(cast(Tagged, row))
            gold, said = self._spans(cast(Tagged, row), words), self._said(words, one)
            missed, made_up = sorted(gold - said), sorted(said - gold)
            if missed or made_up:
                spans = [
                    (*span[:2], kind, span[2])
                    for kind, some in (("gold", missed), ("predicted", made_up))
                    for span in some
                ]
                told = (_told(words.text, missed), _told(words.text, made_up))
                found.append((len(spans), Wrong(words.text, *told, None, row.line, spans=tuple(spans))))
        return [wrong for _, wrong in sorted(found, key=lambda pair: -pair[0])[:most]]

    # -- in between --------------------------------------------------------------------------------------------

    @cached_property
    def plain(self) -> bool:
        """Whether tags mark no entities: parts of speech and the like."""
        return scheme_of([self.labels]) == "plain"

    def _gold(self, row: Tagged, words: Words) -> list[str]:
        """A tag for each word, in BIO where they spell entities."""
        if row.tokens is None:
            if row.entities is None:
                raise InputError(f"{row.place}: no entities", "every row to learn from, or to score, wants them")
            return tags_of(words.covering(row.entities), len(words.spans))
        if row.tags is None:
            raise InputError(f"{row.place}: no tags", "every row to learn from, or to score, wants them")
        return as_bio(row.tags, "plain" if self.plain else "bio")

    def _decided(self, scores: Output, edges: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """[words] the label of each, and its probability."""
        exact = scores.astype(np.float64)
        exact -= exact.max(1, keepdims=True) if len(exact) else 0
        shares = np.exp(exact)
        shares /= shares.sum(1, keepdims=True)
        bio = Bio.of(self.labels) if self.constrained else None
        numbers = scores.argmax(1) if bio is None else bio.best(scores, edges)
        return numbers, shares[np.arange(len(shares)), numbers]

    def _prediction(self, row: Tagged, words: Words, tags: list[str], sure: NDArray[np.float64]) -> Prediction:
        """Entities in characters of the text, or of the words joined; their score is the mean of their words'."""
        made: Prediction = {} if row.tokens is not None else {"tokens": words.tokens}
        if self.plain:
            return {**made, "tags": tags}
        named = []
        for one in entities(tags):
            start, end = words.spans[one.start][0], words.spans[one.end - 1][1]
            score = float(sure[one.start : one.end].mean())
            named.append(
                {"start": start, "end": end, "label": one.label, "text": words.text[start:end], "score": score}
            )
        return {"entities": named, **made, "tags": as_bio(tags, "bio") if self._other else tags}

    @cached_property
    def _other(self) -> bool:
        """Whether these labels, of a model from elsewhere, spell entities in another scheme than BIO."""
        return scheme_of([self.labels]) not in ("bio", "plain")

    def _spans(self, row: Tagged, words: Words) -> set[tuple[int, int, str]]:
        """What is to be found, in characters."""
        if row.entities is not None:
            return {(one.start, one.end, one.label) for one in row.entities}
        return self._of_tags(words, self._gold(row, words))

    def _said(self, words: Words, one: Prediction) -> set[tuple[int, int, str]]:
        if self.plain:
            return self._of_tags(words, one["tags"])
        return {(entity.start, entity.end, entity.label) for entity in _entities(one)}

    def _of_tags(self, words: Words, tags: Sequence[str]) -> set[tuple[int, int, str]]:
        if self.plain:
            return {(*span, tag) for span, tag in zip(words.spans, tags, strict=True)}
        return {(words.spans[one.start][0], words.spans[one.end - 1][1], one.label) for one in entities(tags)}


class _Loss:
    """Cross entropy, the mean over the first pieces of words."""

    def __init__(self, task: Tag) -> None:
        self.task = task

    def counts(self, batch: FeatureBatch) -> dict[str, int]:
        return {"words": int((batch.per_token["tags"] != IGNORED).sum()), "tokens": batch.tokens}

    def __call__(self, module: nn.Module, batch: FeatureBatch, counts: Mapping[str, int], accuracy: bool) -> Losses:
        gold = batch.per_token["tags"]
        scores = scored(module, batch, "tag")
        there = on(scores, gold != IGNORED)
        scores, wanted = scores[there], on(scores, gold[gold != IGNORED])
        each = functional.cross_entropy(scores, wanted, reduction="none", label_smoothing=self.task.label_smoothing)
        if self.task.focal:
            each = each * (1 - scores.softmax(-1).gather(1, wanted[:, None])[:, 0]) ** self.task.focal
        facts = {"accuracy": float((scores.argmax(1) == wanted).sum())} if accuracy else {}
        return shared(each.sum(), counts, facts, by="words")


def _entities(one: Prediction) -> list[Entity]:
    return [Entity(entity["start"], entity["end"], entity["label"]) for entity in one["entities"]]


def _filled(tags: list[str]) -> list[str]:
    """Words that nothing is known of ("") are O; inside an entity that goes on behind them, they belong to it."""
    if all(tags):
        return tags
    before = after = OUTSIDE
    known = 0  # up to where `after` has been looked for
    for at, tag in enumerate(tags):
        if not tag:
            if known <= at:
                known = next((later for later in range(at, len(tags)) if tags[later]), len(tags))
                after = tags[known] if known < len(tags) else OUTSIDE
            letter, kind = parsed(after)
            inside = letter == "I" and parsed(before) in (("B", kind), ("I", kind))
            tags[at] = after if inside else OUTSIDE
        before = tags[at]
    return tags


def _told(text: str, spans: Sequence[tuple[int, int, str]]) -> str:
    return ", ".join(f"{text[start:end]} ({label})" for start, end, label in spans)


def _say_lost(rows: Sequence[Row], words: Sequence[Words], places: NDArray[np.int64], taught: bool) -> None:
    """Tell of words that the tokenizer makes nothing of."""
    lost = np.flatnonzero(places < 0)
    if not len(lost):
        return
    edges = np.cumsum([0, *(len(one.spans) for one in words)])
    owners = np.searchsorted(edges, lost, "right") - 1
    first = int(owners[0])
    word = words[first].tokens[int(lost[0] - edges[first])]
    others = f" and {len(lost) - 1:,} more words" if len(lost) > 1 else ""
    then = "nothing is learnt of them" if taught else "their tag is O"
    tell(f"{rows[first].place}: the tokenizer makes nothing of {word[:20]!a}{others}: {then}")
