"""A row to tag in words: those that it has, or a raw text cut where BERT cuts, every Chinese character for itself."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bertworks.text.words import ONE_HAN

from .data import Entity, Tagged
from .features import Features

SOLID = re.compile(r"\S+")


@dataclass(frozen=True)
class Words:
    """text: the row's own, or its words joined: by a space, but for Chinese characters, which stand side by side.

    spans: where each word stands in it, in characters.
    """

    text: str
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, row: Tagged) -> Words:
        if row.tokens is None:
            text = row.text or ""
            return cls(text, tuple(cuts(text)))
        parts: list[str] = []
        spans = []
        at, before = 0, ""
        for word in row.tokens:
            if parts and not (ONE_HAN.match(before[-1:]) and ONE_HAN.match(word)):
                parts.append(" ")
                at += 1
            spans.append((at, at + len(word)))
            parts.append(word)
            at, before = at + len(word), word
        return cls("".join(parts), tuple(spans))

    @property
    def items(self) -> list[str]:
        """What the tokenizer is handed: each word with the space before it, which byte-level BPE looks at."""
        ends = [0, *(end for _, end in self.spans)]
        return [
            " " * (start > end) + self.text[start:stop] for end, (start, stop) in zip(ends, self.spans, strict=False)
        ]

    @property
    def tokens(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]

    def covering(self, entities: Sequence[Entity]) -> list[Entity]:
        """Entities in characters -> in words: those that they touch; none where they touch no word."""
        starts, ends = zip(*self.spans, strict=True) if self.spans else ((), ())
        found = []
        for one in entities:
            first = int(np.searchsorted(ends, one.start, "right"))
            last = int(np.searchsorted(starts, one.end, "left"))
            if first < last:
                found.append(Entity(first, last, one.label))
        return found


def cuts(text: str) -> Iterator[tuple[int, int]]:
    """Where the words of a raw text are: between spaces, signs and Chinese characters being words of their own.

    >>> [("Ann's 3.5€ 北京")[start:end] for start, end in cuts("Ann's 3.5€ 北京")]
    ['Ann', "'", 's', '3', '.', '5€', '北', '京']
    """
    for chunk in SOLID.finditer(text):
        start = chunk.start()
        for at in [] if chunk[0].isascii() and chunk[0].isalnum() else range(chunk.start(), chunk.end()):
            if alone(text[at]):
                if start < at:
                    yield start, at
                yield at, at + 1
                start = at + 1
        if start < chunk.end():
            yield start, chunk.end()


@lru_cache(maxsize=65536)
def alone(char: str) -> bool:
    """Whether a character is a word of its own in BERT: a sign, or a Chinese one."""
    if char.isascii():
        return not char.isalnum() and not char.isspace()
    return unicodedata.category(char).startswith("P") or ONE_HAN.match(char) is not None


def carriers(features: Features, sizes: Sequence[int]) -> NDArray[np.int64]:
    """[all rows' words] the token that speaks for each: its first piece, in the window where that has most around it;
    -1 for a word that the tokenizer makes nothing of. sizes: the words of each row.
    """
    words, offsets = cast(NDArray[np.int32], features.words), cast(NDArray[np.int32], features.offsets)
    lengths = features.lengths
    count = len(features.ids)
    within = np.arange(count) - np.repeat(features.starts[:-1], lengths)
    context = np.minimum(within, np.repeat(lengths, lengths) - 1 - within)
    begins = (words >= 0) & ((within == 0) | (words != np.concatenate([[-1], words[:-1]])))
    places = np.flatnonzero(begins)
    before = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    word = before[np.repeat(features.rows, lengths)[places]] + words[places]
    # A window may begin inside a word: what is first there is further on in the word than its first piece.
    order = np.lexsort((-context[places], offsets[places, 0], word))
    found = np.full(before[-1], -1, np.int64)
    known, first = np.unique(word[order], return_index=True)
    found[known] = places[order[first]]
    return found
