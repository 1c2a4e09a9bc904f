"""MacBERT's similar words: what a masked word is replaced with, found by the likeness of vectors.

A word is known by its tokens, and replaced by a word of as many tokens, so that every token keeps its place. Vectors
are given (word2vec or GloVe text, a model's own embeddings), or counted from the store itself: how often a word stands
near each of the most frequent tokens, weighed by how much more often than chance (PPMI).
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import BertworksError, tell
from bertworks.folders import written
from bertworks.text.store import INDEXES, Store

from .draws import REPLACE, Bits, below, bits
from .pieces import spread
from .rows import Rows
from .select import Mask

WORDS = 20_000  # the most frequent ones of a store have similar ones
SAMPLE = 4_000_000  # tokens that are looked at to find and count them
CONTEXTS = 1_000  # the most frequent tokens, whose company a word is known by
REACH = 2  # how many tokens before and after count as company
CHOICES = 4  # how many similar words one is drawn from
LONGEST = 8  # tokens of a word

# Words as tuples of token ids -> a vector for each [words, width]; a row of zeros where there is none.
Vectors = Callable[[list[tuple[int, ...]]], NDArray[np.float32]]


@dataclass(frozen=True)
class SimilarWords:
    """hashes [words], sorted; others [words, choices] rows of `tokens` [words, LONGEST], most similar first, -1 where
    there is none.
    """

    hashes: Bits
    others: NDArray[np.int32]
    tokens: NDArray[np.int32]

    def replacements(self, rows: Rows, chosen: Mask, keys: Bits) -> NDArray[np.int64]:
        """[rows, length] for each token of a chosen word the token of a similar word, -1 where none is known."""
        found = np.full(rows.ids.shape, -1, np.int64)
        if not len(self.hashes):
            return found
        begins = rows.begins | ~rows.own
        starts = np.flatnonzero(begins.ravel())
        sizes = np.diff(np.append(starts, begins.size))
        wanted = (chosen.ravel()[starts]) & (sizes <= LONGEST)
        starts, sizes = starts[wanted], sizes[wanted]
        if not len(starts):
            return found
        names = _hashed(rows.ids.ravel()[spread(starts, sizes)], sizes)
        at = np.minimum(np.searchsorted(self.hashes, names), len(self.hashes) - 1)
        known = (self.hashes[at] == names) & (self.others[at, 0] >= 0)
        starts, sizes, at = starts[known], sizes[known], at[known]
        row, column = np.divmod(starts, rows.ids.shape[1])
        many = (self.others[at] >= 0).sum(1)
        picked = self.others[at, below(many, bits(keys, REPLACE)[row], column)]
        found.ravel()[spread(starts, sizes)] = self.tokens[
            np.repeat(picked, sizes), spread(np.zeros(len(sizes), np.int64), sizes)
        ]
        return found


def kept_similar_words(store: Store, say: Callable[[str], None] = tell) -> SimilarWords:
    """Those counted from the store itself: counted once, said, and kept beside it."""
    path = store.folder / INDEXES / f"similar-{store.identity[:16]}.npz"
    if path.is_file():
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return SimilarWords(**arrays)
        except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise BertworksError(f"{path} is torn: {error}", "remove it: it is made again") from None
    say(f"counting which words of {store.folder} are alike (once; kept in {path})")
    found = similar_words(store)
    try:
        with written(path) as draft:
            np.savez(draft, **asdict(found))
    except OSError as error:
        say(f"{path} cannot be written ({error.strerror}): it is counted anew each time")
    return found


def similar_words(store: Store, vectors: Vectors | None = None) -> SimilarWords:
    """For the most frequent words of a store, the most similar ones of as many tokens."""
    ids, sizes = _sampled(store)
    names = _hashed(ids, sizes)
    starts = np.cumsum(sizes) - sizes
    hashes, first, inverse, counts = np.unique(names, return_index=True, return_inverse=True, return_counts=True)
    frequent = np.argsort(-counts, kind="stable")[:WORDS]
    frequent = np.sort(frequent[(counts[frequent] > 4) & (sizes[first[frequent]] <= LONGEST)])
    words = [tuple(ids[starts[at] : starts[at] + sizes[at]].tolist()) for at in first[frequent]]
    if vectors is not None:
        rows = vectors(words)
    else:
        number = np.full(len(hashes), -1, np.int64)
        number[frequent] = np.arange(len(frequent))
        rows = _counted(ids, starts, sizes, number[inverse], len(words))
    others = _nearest(rows, np.array([len(word) for word in words]))
    tokens = np.full((len(words), LONGEST), -1, np.int32)
    for at, word in enumerate(words):
        tokens[at, : len(word)] = word
    return SimilarWords(hashes[frequent], others, tokens)


def _sampled(store: Store) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens from the beginning of each shard, and how many each word has of them."""
    each = max(SAMPLE // len(store.facts), 10_000)
    parts, sizes = [], []
    for shard in store.shards():
        stop = min(each, len(shard.ids))
        begins = np.flatnonzero(shard.begins(0, stop))
        parts.append(shard.ids[:stop].astype(np.int64))
        sizes.append(np.diff(np.append(begins, stop)))
    return np.concatenate(parts), np.concatenate(sizes)


def _hashed(ids: NDArray[np.int64] | NDArray[np.int32], sizes: NDArray[np.int64]) -> Bits:
    """One number for each word: of its tokens, in their order."""
    place = spread(np.zeros(len(sizes), np.int64), sizes)
    mixed = bits(np.asarray(ids).astype(np.uint64), place)
    return np.add.reduceat(mixed, np.cumsum(sizes) - sizes)


def _counted(
    ids: NDArray[np.int64], starts: NDArray[np.int64], sizes: NDArray[np.int64], number: NDArray[np.int64], words: int
) -> NDArray[np.float32]:
    """PPMI of each word [words] with the tokens that stand before and after it."""
    common = np.argsort(-np.bincount(ids), kind="stable")[:CONTEXTS]
    context = np.full(int(ids.max()) + 1, -1, np.int64)
    context[common] = np.arange(len(common))
    seen = np.zeros((words, len(common)), np.float32)
    for step in range(1, REACH + 1):
        for beside in (starts - step, starts + sizes - 1 + step):
            inside = (number >= 0) & (beside >= 0) & (beside < len(ids))
            row, column = number[inside], context[ids[beside[inside]]]
            pairs = (row * len(common) + column)[column >= 0]
            seen += np.bincount(pairs, minlength=seen.size).reshape(seen.shape)
    expected = seen.sum(1, keepdims=True) * (seen.sum(0) / max(float(seen.sum()), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        more = np.log(seen / expected)
    positive: NDArray[np.float32] = np.maximum(np.nan_to_num(more, nan=0.0, neginf=0.0), 0.0).astype(np.float32)
    return positive


def _nearest(rows: NDArray[np.float32], lengths: NDArray[np.int64]) -> NDArray[np.int32]:
    """[words, choices] the nearest by cosine among words of as many tokens."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.maximum(norms, 1e-9)
    others = np.full((len(rows), CHOICES), -1, np.int32)
    for length in np.unique(lengths):
        group = np.flatnonzero((lengths == length) & (norms[:, 0] > 0))
        for some in np.array_split(group, max(len(group) // 1024, 1)):
            if len(group) < 2:
                continue
            likeness = unit[some] @ unit[group].T
            likeness[np.searchsorted(group, some)[:, None] == np.arange(len(group))] = -2.0
            many = min(CHOICES, len(group) - 1)
            best = np.argpartition(-likeness, many - 1, 1)[:, :many]
            score = np.take_along_axis(likeness, best, 1)
            best = np.take_along_axis(best, np.argsort(-score, 1, kind="stable"), 1)
            near = np.take_along_axis(likeness, best, 1) > 0.0
            others[some, :many] = np.where(near, group[best], -1)
    return others
