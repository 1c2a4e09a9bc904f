"""Rows as a model reads them: token ids in flat arrays, long texts in windows, targets beside them.

A *feature* is one sequence that goes through the model. A row may become several: windows over a long text, the choices
of a question, the two texts of a pair. Features whose outputs are needed together (their decisions are pooled, or they
compete) make a *unit*: it is never cut by a batch, and is what an epoch counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import InputError
from bertworks.text.tokenizer import LONE_SURROGATE, Tokenizer, longest_first

Item = str | tuple[str, str] | list[str]  # a text, a pair of texts, or a text that is cut into words already
AT_ONCE = 1024  # texts in the tokenizer's hands at a time: enough for all cores, little enough to stay small
IGNORED = -100  # the target that losses pass over, and what targets of tokens are padded with


@dataclass(frozen=True)
class Features:
    """Encoded rows, one feature after another.

    ids, segments  [tokens] of all features; segments is None where every token is in segment 0
    starts         [features + 1] where each begins; the last is the number of tokens
    rows           [features] the place of the row that it was made of
    units          [features] the number of its unit, from 0 on without a gap: neighbours share one or go up by one
    offsets        [tokens, 2] characters of each token in its own text (for words: in the word); (0, 0) for specials
    texts          [tokens] 0 or 1: which text of the pair; -1 for specials
    words          [tokens] which word of its text; -1 for specials
                   (these three only where alignment was asked for)
    per_token, per_feature, per_unit
                   what is learnt, by name: arrays of that first dimension, which travel in batches
    cut            how many rows lost tokens
    pad_id         what batches are padded with
    """

    ids: NDArray[np.int32]
    segments: NDArray[np.uint8] | None
    starts: NDArray[np.int64]
    rows: NDArray[np.int64]
    units: NDArray[np.int64]
    offsets: NDArray[np.int32] | None = None
    texts: NDArray[np.int8] | None = None
    words: NDArray[np.int32] | None = None
    per_token: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    per_feature: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    per_unit: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    cut: int = 0
    pad_id: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[features] in tokens."""
        return np.diff(self.starts)

    @property
    def unit_count(self) -> int:
        return int(self.units[-1]) + 1 if len(self.units) else 0

    @property
    def unit_starts(self) -> NDArray[np.int64]:
        """[units + 1] where each unit's features begin."""
        return np.searchsorted(self.units, np.arange(self.unit_count + 1))

    def tokens_of(self, feature: int) -> slice:
        """Where one feature's tokens lie."""
        return slice(int(self.starts[feature]), int(self.starts[feature + 1]))

    def of_rows(self, count: int) -> list[list[int]]:
        """The features of each of `count` rows."""
        found: list[list[int]] = [[] for _ in range(count)]
        for at, row in enumerate(self.rows.tolist()):
            found[row].append(at)
        return found

    def apart(self) -> Features:
        """The same with every feature a unit of its own."""
        return replace(self, units=np.arange(len(self), dtype=np.int64))

    def teaching(
        self,
        *,
        per_token: Mapping[str, Any] | None = None,
        per_feature: Mapping[str, Any] | None = None,
        per_unit: Mapping[str, Any] | None = None,
    ) -> Features:
        """The same with targets, each checked to be as long as what it is for."""
        sizes = {"per_token": len(self.ids), "per_feature": len(self), "per_unit": self.unit_count}
        given: dict[str, Any] = {}
        for kind, some in (("per_token", per_token), ("per_feature", per_feature), ("per_unit", per_unit)):
            arrays = {name: np.asarray(values) for name, values in (some or {}).items()}
            for name, values in arrays.items():
                if len(values) != sizes[kind]:
                    raise ValueError(f"{name}: {len(values)} targets for {sizes[kind]} ({kind})")
            given[kind] = {**getattr(self, kind), **arrays}
        return replace(self, **given)


def encode(
    tokenizer: Tokenizer,
    items: Sequence[Item],
    length: int,
    *,
    overlap: int | None = None,
    along: int = -1,
    aligned: bool = False,
) -> Features:
    """Each item as one feature of at most `length` tokens, special ones included; a unit is an item.

    A longer one is cut, the longer of a pair first. With `overlap`, it becomes windows instead: every feature holds the
    next stretch of one text, of which neighbours share `overlap` tokens, and the other text whole (of a pair, `along`
    says which is cut: -1 for the last; the other keeps half the room at most).

    A list is a text in words: `words` then counts those. `aligned`: keep offsets, texts and words.
    """
    parts = [
        _Part.of(tokenizer, items[at : at + AT_ONCE], at, length, overlap, along, aligned)
        for at in range(0, len(items), AT_ONCE)
    ]
    sizes = _joined([part.sizes for part in parts], np.int64)
    rows = _joined([part.rows for part in parts], np.int64)
    segments = _joined([part.segments for part in parts], np.uint8)
    return Features(
        _joined([part.ids for part in parts], np.int32),
        segments if segments.any() else None,
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        rows,
        rows.copy(),
        _joined([part.offsets for part in parts], np.int32).reshape(-1, 2) if aligned else None,
        _joined([part.texts for part in parts], np.int8) if aligned else None,
        _joined([part.words for part in parts], np.int32) if aligned else None,
        cut=sum(part.cut for part in parts),
        pad_id=tokenizer.pad_id or 0,
    )


def windows(size: int, room: int, overlap: int) -> list[tuple[int, int]]:
    """Stretches of at most `room` that cover `size`; neighbours share `overlap` or more, and none of several is short.

    >>> windows(10, 4, 1)
    [(0, 4), (3, 7), (6, 10)]
    >>> windows(9, 4, 1)
    [(0, 4), (3, 7), (5, 9)]
    """
    if not 0 <= overlap < room:
        raise InputError(
            f"windows of {room} tokens cannot share {overlap}", "a smaller task.overlap, or a larger batch.length"
        )
    if size <= room:
        return [(0, size)]
    firsts = [*range(0, size - room, room - overlap), size - room]
    return [(first, first + room) for first in firsts]


def joined(parts: Sequence[Features]) -> Features:
    """Features of the same rows side by side, a unit to a row: `parts[k]` holds the k-th of each.

    Each part has exactly one feature a row, as `encode` without windows gives. So the choices of questions, or anchors
    and positives, are encoded column by column and come out side by side. Targets of parts are not taken over.
    """
    count = len(parts[0])
    if any(len(part) != count for part in parts):
        raise ValueError("each part has one feature for every row")
    order = [(part, at) for at in range(count) for part in parts]
    return picked(order, np.repeat(np.arange(count), len(parts)), np.repeat(np.arange(count), len(parts)))


def picked(order: Sequence[tuple[Features, int]], rows: NDArray[np.int64], units: NDArray[np.int64]) -> Features:
    """Any features in any order, with rows and units of their own; without targets."""
    first = order[0][0]
    places = [(one, one.tokens_of(at)) for one, at in order]
    segmented = any(one.segments is not None for one, _ in order)

    def column(name: str) -> NDArray[Any] | None:
        if getattr(first, name) is None:
            return None
        return np.concatenate([getattr(one, name)[place] for one, place in places])

    segments = [
        np.zeros(place.stop - place.start, np.uint8) if one.segments is None else one.segments[place]
        for one, place in places
    ]
    sizes = [place.stop - place.start for _, place in places]
    return Features(
        np.concatenate([one.ids[place] for one, place in places]),
        np.concatenate(segments) if segmented else None,
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        rows.astype(np.int64),
        units.astype(np.int64),
        column("offsets"),
        column("texts"),
        column("words"),
        cut=sum({id(one): one.cut for one, _ in order}.values()),
        pad_id=first.pad_id,
    )


@dataclass
class _Part:
    """Some items encoded; flat lists until they are arrays."""

    sizes: Any
    rows: Any
    ids: Any
    segments: Any
    offsets: Any
    texts: Any
    words: Any
    cut: int

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        items: Sequence[Item],
        first: int,
        length: int,
        overlap: int | None,
        along: int,
        aligned: bool,
    ) -> _Part:
        in_words = bool(items) and isinstance(items[0], list)
        library = tokenizer.library
        encoded = (library.encode_batch if aligned else library.encode_batch_fast)(
            [_clean(item) for item in items], is_pretokenized=in_words
        )
        found = cls([], [], [], [], [], [], [], 0)
        for row, one in enumerate(encoded, first):
            ids, segments = one.ids, one.type_ids
            columns: list[list[Any]] = [ids, segments]
            if aligned:
                texts = [-1 if text is None else text for text in one.sequence_ids]
                words = [-1 if word is None else word for word in one.word_ids]
                columns += [one.offsets, texts, words]
            if len(ids) <= length:
                found._add(row, columns)
            elif overlap is None:
                found.cut += 1
                found._add(row, _chosen(columns, _cut(one.sequence_ids, length)))
            else:
                for kept in _windowed(one.sequence_ids, length, overlap, along):
                    found._add(row, _chosen(columns, kept))
        return found._flat()

    def _add(self, row: int, columns: list[list[Any]]) -> None:
        self.sizes.append(len(columns[0]))
        self.rows.append(row)
        for own, column in zip((self.ids, self.segments, self.offsets, self.texts, self.words), columns, strict=False):
            own.append(column)

    def _flat(self) -> _Part:
        def flat(lists: list[list[Any]], kind: Any) -> NDArray[Any]:
            return np.fromiter(chain.from_iterable(lists), kind)

        pairs = [list(chain.from_iterable(some)) for some in self.offsets]
        return _Part(
            np.array(self.sizes, np.int64),
            np.array(self.rows, np.int64),
            flat(self.ids, np.int32),
            flat(self.segments, np.uint8),
            flat(pairs, np.int32),
            flat(self.texts, np.int8),
            flat(self.words, np.int32),
            self.cut,
        )


def _clean(item: Item) -> Any:
    """What the library can take: half a surrogate is no character."""
    if isinstance(item, str):
        return item if item.isascii() else LONE_SURROGATE.sub("\ufffd", item)
    cleaned = [_clean(one) for one in item]
    return cleaned if isinstance(item, list) else tuple(cleaned)


def _chosen(columns: list[list[Any]], kept: Sequence[int]) -> list[list[Any]]:
    return [[column[at] for at in kept] for column in columns]


def _places(sequences: Sequence[int | None], length: int) -> tuple[list[int], list[int], int]:
    """Where the tokens of the first and of the second text stand, and the room that special tokens leave."""
    first = [at for at, text in enumerate(sequences) if text == 0]
    second = [at for at, text in enumerate(sequences) if text == 1]
    specials = len(sequences) - len(first) - len(second)
    if length <= specials:
        raise InputError(f"a length of {length} has no room beside {specials} special tokens", "a larger batch.length")
    return first, second, length - specials


def _cut(sequences: Sequence[int | None], length: int) -> list[int]:
    """The tokens that stay when the longer text gives way first."""
    first, second, room = _places(sequences, length)
    kept = longest_first(len(first), len(second), room)
    gone = {*first[kept[0] :], *second[kept[1] :]}
    return [at for at in range(len(sequences)) if at not in gone]


def _windowed(sequences: Sequence[int | None], length: int, overlap: int, along: int) -> Iterator[list[int]]:
    """The tokens of each window."""
    first, second, room = _places(sequences, length)
    moved, other = (second, first) if second and along != 0 else (first, second)
    spare = max(room // 2, room - len(moved))  # of the other text
    gone = set(other[spare:])
    room -= min(len(other), spare)
    inside = set(moved)
    for start, stop in windows(len(moved), room, min(overlap, max(room - 1, 0))):
        here = set(moved[start:stop])
        yield [at for at in range(len(sequences)) if at not in gone and (at not in inside or at in here)]


def _joined(arrays: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate(arrays).astype(kind, copy=False) if arrays else np.zeros(0, kind)
