"""The layout of BERT and ALBERT: two segments of whole sentences, and whether they belong together.

The published preparation walks through each document: it gathers sentences up to a wanted length, cuts them in two,
and in half of the cases (always, where there is but one sentence) puts something else in the second place, going back
to what it did not use. Here all documents of a shard are walked through at once, a step in each at a time; every draw
is keyed by the sentence that an example begins with, so the result does not depend on how the work is cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.text.store import Shard, Store

from .draws import DOCUMENT, FRONT, NEXT, SHORT, SPLIT, START, TARGET, Bits, below, bits, key, uniform
from .frame import Frame
from .pieces import NO_ANSWER, Pieces, marks, spread

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class _Stretches:
    """Stretches of the store: start and length [n]."""

    start: Numbers
    length: Numbers


def segment_pairs(
    store: Store, frame: Frame, length: int, *, pair: str, short: float, seed: int, copy: int
) -> Iterator[Pieces]:
    """Pairs from every document of the store. `copy` numbers the ways in which the same text is cut.

    The answer: 0 where the second segment is the next one (in order), 1 where it is not.
    """
    most = frame.room(length, pairs=True)
    for number in range(len(store.facts)):
        walk = _Walk(store, number, most, pair, short, seed, copy)
        yield _framed(*walk.pairs(), most, frame, walk.key(FRONT), pair != "none")


class _Walk:
    """Through the documents of one shard."""

    def __init__(self, store: Store, number: int, most: int, pair: str, short: float, seed: int, copy: int) -> None:
        self.store, self.shard, self.pair, self.seed, self.copy = store, store.shard(number), pair, seed, copy
        self.base = int(store.token_edges[number])
        self.first_sentence = int(store.sentence_edges[number])
        self.first_document = int(store.document_edges[number])
        count = len(self.shard.documents) - 1
        documents = np.arange(count) + self.first_document
        target = 2 + below(max(most - 1, 1), self.key(TARGET), documents)
        self.target = np.where(uniform(self.key(SHORT), documents) < short, target, most)

    def key(self, purpose: int) -> Bits:
        return key(purpose, self.seed, self.copy)

    def pairs(self) -> tuple[_Stretches, _Stretches, Numbers, Numbers]:
        """First segments, second ones (of length 0 where there is none), answers, and what keys their draws."""
        firsts: list[_Stretches] = []
        seconds: list[_Stretches] = []
        answers: list[Numbers] = []
        names: list[Numbers] = []
        document = np.arange(len(self.target))
        at = self.shard.documents[:-1].astype(np.int64)
        while len(document):
            end = self.shard.documents[document + 1].astype(np.int64)
            first, second, answer, following = self._step(document, at, end)
            firsts.append(first)
            seconds.append(second)
            answers.append(answer)
            names.append(at + self.first_sentence)
            going = following < end
            document, at = document[going], following[going]
        return _joined(firsts), _joined(seconds), np.concatenate(answers), np.concatenate(names)

    def _step(self, document: Numbers, at: Numbers, end: Numbers) -> tuple[_Stretches, _Stretches, Numbers, Numbers]:
        """The next pair of each document, which begins at sentence `at`, and where the one after it begins."""
        tokens = self.shard.sentences
        target = self.target[document]
        name = at + self.first_sentence
        stop = np.minimum(_reaching(tokens, tokens[at] + target), end)
        count = stop - at
        cut = at + np.where(count < 2, 1, 1 + below(np.maximum(count - 1, 1), self.key(SPLIT), name))
        other = uniform(self.key(NEXT), name) < 0.5
        first, second = self._between(at, cut), self._between(cut, stop)
        if self.pair == "none":
            return first, second, np.full(len(at), NO_ANSWER), stop
        strange = (count < 2) | (other & (self.pair == "next-sentence"))
        swapped = other & ~strange
        drawn = self._elsewhere(document[strange], (target - first.length)[strange], name[strange])
        for mine, theirs in ((second.start, drawn.start), (second.length, drawn.length)):
            mine[strange] = theirs
        if self.pair == "sentence-order":
            first, second = (
                _Stretches(np.where(swapped, a.start, b.start), np.where(swapped, a.length, b.length))
                for a, b in ((second, first), (first, second))
            )
        following = np.where(strange, cut, stop)  # what was cut off for a stranger's sake comes again
        return first, second, (strange | swapped).astype(np.int64), following

    def _between(self, first: Numbers, last: Numbers) -> _Stretches:
        """Sentences [first, last) of this shard."""
        tokens = self.shard.sentences
        return _Stretches(tokens[first].astype(np.int64) + self.base, (tokens[last] - tokens[first]).astype(np.int64))

    def _elsewhere(self, document: Numbers, wanted: Numbers, name: Numbers) -> _Stretches:
        """A stretch of another document, from a sentence drawn in it, of the wanted number of tokens or up to its end.

        Ten draws are made to find another document, as published; a store of one document has no other.
        """
        own = document + self.first_document
        picked = below(self.store.documents, self.key(DOCUMENT), name)
        for draw in range(1, 10):
            picked = np.where(
                picked == own, below(self.store.documents, key(DOCUMENT, self.seed, self.copy, draw), name), picked
            )
        start, length = np.zeros(len(picked), np.int64), np.zeros(len(picked), np.int64)
        shards = np.searchsorted(self.store.document_edges, picked, "right") - 1
        for number in np.unique(shards):
            here = np.flatnonzero(shards == number)
            local = picked[here] - self.store.document_edges[number]
            shard = self.store.shard(int(number))
            begin, stop = _drawn(shard, local, wanted[here], self.key(START), name[here])
            start[here] = shard.sentences[begin] + self.store.token_edges[number]
            length[here] = shard.sentences[stop] - shard.sentences[begin]
        return _Stretches(start, length)


def _drawn(shard: Shard, document: Numbers, wanted: Numbers, keys: Bits, name: Numbers) -> tuple[Numbers, Numbers]:
    """Sentences [first, last) of each document: the first is drawn, and at least one is taken."""
    begin, end = shard.documents[document].astype(np.int64), shard.documents[document + 1].astype(np.int64)
    first = begin + below(end - begin, keys, name)
    stop = _reaching(shard.sentences, shard.sentences[first] + np.maximum(wanted, 1))
    return first, np.minimum(stop, end)


def _reaching(edges: NDArray[np.int32], wanted: NDArray[Any]) -> Numbers:
    """The first edge at or past each wanted place; asked in the edges' own type, or they would all be converted."""
    return np.searchsorted(edges, wanted.astype(edges.dtype), "left").astype(np.int64)


def _joined(parts: list[_Stretches]) -> _Stretches:
    return _Stretches(np.concatenate([one.start for one in parts]), np.concatenate([one.length for one in parts]))


def _framed(
    first: _Stretches,
    second: _Stretches,
    answer: Numbers,
    name: Numbers,
    most: int,
    frame: Frame,
    keys: Bits,
    told: bool,
) -> Pieces:
    """Cut each pair to the room there is, and put it in its frame."""
    first_kept, second_kept = shares(first.length, second.length, most)
    first = _trimmed(first, first_kept, bits(keys, 2 * name))
    second = _trimmed(second, second_kept, bits(keys, 2 * name + 1))
    lone = second.length == 0
    count = len(first.start)
    there = np.stack([np.ones(count, np.bool_), ~lone], 1).ravel()
    start = np.stack([first.start, second.start], 1).ravel()[there]
    length = np.stack([first.length, second.length], 1).ravel()[there]
    opening = marks(cls=True, seps=np.where(lone, 1, frame.between), answer=answer if told else NO_ANSWER)
    closing = marks(cls=False, seps=1, second=np.full(count, frame.second > 0))
    mark = np.stack([np.broadcast_to(opening, count), np.broadcast_to(closing, count)], 1).ravel()[there]
    rows = np.concatenate([[0], np.cumsum(2 - lone.astype(np.int64))])
    return Pieces(rows, start, length.astype(np.uint16), mark)


def shares(first: Numbers, second: Numbers, most: int) -> tuple[Numbers, Numbers]:
    """How much of each segment stays: the longer one gives way a token at a time, the second where they are equal.

    >>> [one.tolist() for one in shares(np.array([9, 2, 9]), np.array([9, 9, 1]), 7)]
    [[4, 2, 6], [3, 5, 1]]
    """
    first_kept = np.minimum(first, np.maximum(most - second, most - most // 2))
    return first_kept, np.minimum(second, most - first_kept)


def _trimmed(stretches: _Stretches, kept: Numbers, keys: Bits) -> _Stretches:
    """Each token too many falls off the front or the back, as a coin decides."""
    excess = stretches.length - kept
    over = np.flatnonzero(excess > 0)
    front = np.zeros(len(excess), np.int64)
    if len(over):
        counts = excess[over]
        coins = bits(np.repeat(keys[over], counts), spread(np.zeros(len(over), np.int64), counts)) & np.uint64(1)
        front[over] = np.add.reduceat(coins.astype(np.int64), np.cumsum(counts) - counts)
    return _Stretches(stretches.start + front, kept)
