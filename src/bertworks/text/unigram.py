"""Unigram vocabularies (Kudo 2018) by expectation-maximisation, over all words at once in NumPy.

A word's segmentations are paths through a lattice whose edges are the pieces standing in it. All words' lattices are
one flat list of edges, walked one character of every word at a time. Every sum is taken in a fixed order, so the
same words give the same pieces and scores.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import tell

Ints = NDArray[np.signedinteger[Any]]
Floats = NDArray[np.float64]

LONGEST_PIECE = 16
MOST_SEEDS = 200_000
MOST_CHARACTERS = 1_500_000  # of different words; with more, the most frequent words and a sample of the rest
SHRINK = 0.75  # what a round of pruning keeps
SPARE = 1.1  # how much more than asked is kept until the end


def train(counts: Sequence[tuple[str, int]], alphabet: Sequence[str], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces and their log probabilities, best first, every character of `alphabet` among them.

    counts  words of at most 32 characters of the alphabet, each with how often it came
    """
    words = sampled(counts, MOST_CHARACTERS)
    table = {char: at for at, char in enumerate(alphabet)}
    text, weights = _Text.of([word for word, _ in words], table), np.array([count for _, count in words], np.float64)
    pieces, mass = _seeds(text, weights, alphabet)
    known = {piece: at for at, piece in enumerate(pieces)}
    lattice = _Lattice.of(text, known, [word for word, _ in words])
    own = _Lattice.of(_Text.of(pieces, table), known, pieces)
    single = np.array([len(piece) == 1 for piece in pieces])
    keep = np.ones(len(pieces), bool)
    chance = mass / mass.sum()
    while True:
        for _ in range(2):
            expected = np.maximum(lattice.expected(chance, weights), np.where(single, 1e-3, 0))
            keep &= single | (expected >= 0.5)
            chance = _maximised(np.where(keep, expected, 0))
        if keep.sum() <= SPARE * size:
            break
        # What the likelihood loses when a piece is written by its best alternative instead.
        with np.errstate(divide="ignore"):
            loss = expected * (np.log(np.where(keep, chance, 1)) - np.log(own.best_without(chance)))
        loss[single] = np.inf
        target = max(int(SPARE * size), int(keep.sum() * SHRINK))
        keep &= _top(np.where(keep, loss, -np.inf), target)
        chance = _maximised(np.where(keep, expected, 0))
        lattice, own = lattice.among(keep), own.among(keep)
    keep &= _top(np.where(keep, np.where(single, np.inf, chance), -1), size)
    chance = np.where(keep, chance, 0)
    scores = np.log(chance[keep] / chance.sum()).round(6)  # past six digits processors differ
    chosen = zip((pieces[at] for at in np.flatnonzero(keep)), scores.tolist(), strict=True)
    return sorted(chosen, key=lambda item: (-item[1], item[0]))


def sampled(counts: Sequence[tuple[str, int]], most: int) -> list[tuple[str, int]]:
    """The most frequent words that have `most` characters together; told where these are not all."""
    if sum(len(word) for word, _ in counts) <= most:
        return list(counts)
    taken, size = [], 0
    # Among equally frequent words the digest decides, so that the sample leans to no part of the alphabet.
    for word, count in sorted(counts, key=lambda item: (-item[1], zlib.crc32(item[0].encode()), item[0])):
        size += len(word)
        if size > most:
            break
        taken.append((word, count))
    tell(f"learnt from the {len(taken):,} most frequent of {len(counts):,} different words")
    return taken


def _maximised(expected: Floats) -> Floats:
    """Chances from expected counts: exp(digamma), which favours pieces that are used often; near enough as x - 1/2."""
    mass = np.where(expected > 0, np.maximum(expected - 0.5 + 1 / (24 * np.maximum(expected, 0.5)), 1e-4), 0)
    total: Floats = mass / mass.sum()
    return total


def _top(values: Floats, count: int) -> NDArray[np.bool_]:
    """The `count` greatest; of equal ones the first."""
    chosen = np.zeros(len(values), bool)
    chosen[np.argsort(-values, kind="stable")[:count]] = True
    return chosen


@dataclass(frozen=True)
class _Text:
    """Words as one array of character codes; `end[i]` is where the word of character i ends."""

    codes: Ints
    end: Ints
    starts: Ints

    @classmethod
    def of(cls, words: Sequence[str], table: dict[str, int]) -> _Text:
        sizes = np.array([len(word) for word in words], np.int64)
        codes = np.fromiter((table[char] for word in words for char in word), np.int64, int(sizes.sum()))
        ends = np.cumsum(sizes)
        return cls(codes, np.repeat(ends, sizes), ends - sizes)


def _seeds(text: _Text, weights: Floats, alphabet: Sequence[str]) -> tuple[list[str], Floats]:
    """All characters, then substrings that come twice or more, by how much text they would cover.

    A substring is left out where a longer one, one character more at its end, comes just as often.
    """
    sizes = np.diff(np.append(text.starts, len(text.codes)))
    weight = np.repeat(weights, sizes)
    group = text.codes.copy()  # which substring starts at each of `at`, numbered within its length
    at = np.arange(len(text.codes))
    counts = _sums(group, weight, len(alphabet))
    singles = np.maximum(counts, 1e-3)
    found: list[tuple[Ints, Floats, int]] = []  # where one stands, its count, its length
    for length in range(2, LONGEST_PIECE + 1):
        going = (at + length <= text.end[at]) & (counts[group] >= 2)
        at, group = at[going], group[going]
        if not len(at):
            break
        key = group * len(alphabet) + text.codes[at + length - 1]
        _, first, fresh = np.unique(key, return_index=True, return_inverse=True)
        longer = _sums(fresh, weight[at])
        if found:
            where, count, size = found[-1]
            same = np.zeros(len(counts), bool)
            same[group[first[longer == counts[group[first]]]]] = True
            # `found` is in the order of the groups of the length before
            found[-1] = where[~same], count[~same], size
        found.append((at[first], longer, length))
        counts, group = longer, fresh
    frequent = [(where[count >= 2], count[count >= 2], size) for where, count, size in found]
    return _chosen_seeds(frequent, text, singles, alphabet)


def _chosen_seeds(
    found: list[tuple[Ints, Floats, int]], text: _Text, singles: Floats, alphabet: Sequence[str]
) -> tuple[list[str], Floats]:
    where = np.concatenate([one for one, _, _ in found]) if found else np.zeros(0, np.int64)
    count = np.concatenate([one for _, one, _ in found]) if found else np.zeros(0)
    size = np.concatenate([np.full(len(one), size) for one, _, size in found]) if found else np.zeros(0, np.int64)
    best = np.argsort(-(count * size), kind="stable")[:MOST_SEEDS]
    pieces = [
        "".join(alphabet[code] for code in text.codes[start : start + length])
        for start, length in zip(where[best].tolist(), size[best].tolist(), strict=True)
    ]
    return [*alphabet, *pieces], np.concatenate([singles, (count * size)[best]])


@dataclass(frozen=True)
class _Lattice:
    """Edges (from, to, piece) of every word: node i stands before character i, and each word has one node more."""

    start: Ints
    stop: Ints
    piece: Ints
    word: Ints
    first: Ints  # each word's first node
    last: Ints  # each word's last
    steps: tuple[Ints, ...]  # edges by how far into their word they end, in the order of `stop`
    back: tuple[Ints, ...]  # edges by how far into their word they start, in the order of `start`

    @classmethod
    def of(cls, text: _Text, known: dict[str, int], words: Sequence[str]) -> _Lattice:
        longest = max(map(len, known))
        starts, stops, pieces, owners = (array("i") for _ in range(4))
        node = 0
        for owner, word in enumerate(words):
            for begin in range(len(word)):
                for end in range(begin + 1, min(begin + longest, len(word)) + 1):
                    found = known.get(word[begin:end])
                    if found is not None:
                        starts.append(node + begin)
                        stops.append(node + end)
                        pieces.append(found)
                        owners.append(owner)
            node += len(word) + 1
        numbers = np.arange(len(text.starts))
        first = text.starts + numbers
        last = np.append(text.starts[1:], len(text.codes)) + numbers
        start, stop, piece, word_of = (np.frombuffer(row, np.intc) for row in (starts, stops, pieces, owners))
        return cls._ordered(start, stop, piece, word_of, first, last)

    @classmethod
    def _ordered(cls, start: Ints, stop: Ints, piece: Ints, word: Ints, first: Ints, last: Ints) -> _Lattice:
        steps = _by(stop - first[word], stop)
        back = _by(start - first[word], start)
        return cls(start, stop, piece, word, first, last, steps, back)

    def among(self, keep: NDArray[np.bool_]) -> _Lattice:
        """The same with only the edges of the pieces kept."""
        left = keep[self.piece]
        rows = (self.start[left], self.stop[left], self.piece[left], self.word[left])
        return self._ordered(*rows, self.first, self.last)

    def expected(self, chance: Floats, weights: Floats) -> Floats:
        """How often each piece is expected in all words, over all their segmentations."""
        here = chance[self.piece]
        ahead = np.zeros(int(self.last[-1]) + 1)
        ahead[self.first] = 1
        for edges in self.steps:
            at, heads = _runs(self.stop[edges])
            ahead[at] = np.add.reduceat(ahead[self.start[edges]] * here[edges], heads)
        behind = np.zeros_like(ahead)
        behind[self.last] = 1
        for edges in reversed(self.back):
            at, heads = _runs(self.start[edges])
            behind[at] = np.add.reduceat(behind[self.stop[edges]] * here[edges], heads)
        whole = weights / np.maximum(ahead[self.last], 1e-300)
        share = ahead[self.start] * here * behind[self.stop] * whole[self.word]
        return _sums(self.piece, share, len(chance))

    def best_without(self, chance: Floats) -> Floats:
        """Each word's best segmentation into two pieces or more: its chance, tiny where there is none."""
        whole = (self.start == self.first[self.word]) & (self.stop == self.last[self.word])
        here = np.where(whole, 0, chance[self.piece])
        ahead = np.zeros(int(self.last[-1]) + 1)
        ahead[self.first] = 1
        for edges in self.steps:
            at, heads = _runs(self.stop[edges])
            ahead[at] = np.maximum.reduceat(ahead[self.start[edges]] * here[edges], heads)
        best: Floats = np.maximum(ahead[self.last], 1e-300)
        return best


def _sums(group: Ints, values: Floats, groups: int = 0) -> Floats:
    """The sum of the values of each group."""
    return np.asarray(np.bincount(group, values, groups), np.float64)


def _by(step: Ints, node: Ints) -> tuple[Ints, ...]:
    """Indices of the edges of each step, those of one node side by side."""
    order = np.lexsort((node, step)).astype(np.int32)
    cuts = np.flatnonzero(np.diff(step[order])) + 1
    return tuple(np.split(order, cuts))


def _runs(nodes: Ints) -> tuple[Ints, Ints]:
    """Of a sorted row: its different values, and where each begins."""
    heads = np.flatnonzero(np.append(True, nodes[1:] != nodes[:-1]))
    return nodes[heads], heads
