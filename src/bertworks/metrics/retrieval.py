"""Figures of embeddings: cosines against scores, and whether what belongs together is found.

Ties are read against the model: of equally similar documents the irrelevant ones come first, so an encoder that maps
everything to one point finds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from bertworks.errors import InputError

from .classification import ratio
from .intervals import Floats

CUTS = (1, 5, 10)
DEPTH = 10  # of nDCG
QUERIES = 256  # compared at once


def cosines(left: ArrayLike, right: ArrayLike) -> Floats:
    """(rows,) cosines of (rows, width) and (rows, width); of an empty vector, 0."""
    one, two = unit(left), unit(right)
    return np.asarray((one * two).sum(1))


def unit(vectors: ArrayLike) -> Floats:
    table = np.asarray(vectors, np.float64)
    sizes = np.linalg.norm(table, axis=1, keepdims=True)
    return ratio(table, sizes)


def retrieval_rows(queries: ArrayLike, documents: ArrayLike, relevant: Sequence[Sequence[int]]) -> Floats:
    """(queries, 1 + cuts + 2): one, recall at each of CUTS, reciprocal rank, nDCG at DEPTH, by cosine.

    relevant: for each query the numbers of its documents; each document counts the same.
    """
    asked, offered = unit(queries), unit(documents)
    if len(relevant) != len(asked):
        raise InputError(f"{len(asked)} queries, but {len(relevant)} lists of relevant documents", "one list a query")
    rows = np.zeros((len(asked), 1 + len(CUTS) + 2))
    for first in range(0, len(asked), QUERIES):
        alike = asked[first : first + QUERIES] @ offered.T
        for at in range(len(alike)):
            rows[first + at] = _row(found_at(alike[at], relevant[first + at], first + at))
    return rows


def found_at(alike: Floats, relevant: Sequence[int], query: int = 0) -> Floats:
    """Ranks from 1, ascending, of one query's relevant documents. alike: (documents,)."""
    wanted = np.unique(np.asarray(relevant, np.int64))
    if not len(wanted) or wanted[0] < 0 or wanted[-1] >= len(alike):
        raise InputError(
            f"query {query + 1} has no relevant document among the {len(alike)} that there are",
            "every query needs one; leave out those that have none",
        )
    own = np.sort(alike[wanted])[::-1]
    others = np.sort(np.delete(alike, wanted))
    above = len(others) - np.searchsorted(others, own, "left")
    return np.asarray(above + np.arange(1, len(own) + 1), np.float64)


def _row(ranks: Floats) -> list[float]:
    recalls = [float((ranks <= cut).mean()) for cut in CUTS]
    ideal = _gain(np.arange(1.0, len(ranks) + 1))
    return [1.0, *recalls, float(1 / ranks[0]), _gain(ranks) / ideal]


def _gain(ranks: Floats) -> float:
    return float((1 / np.log2(ranks[ranks <= DEPTH] + 1)).sum())


def retrieval_figures(sums: Floats) -> dict[str, Floats]:
    names = [*(f"recall@{cut}" for cut in CUTS), "mrr", f"ndcg@{DEPTH}"]
    return {name: sums[:, 1 + at] / sums[:, 0] for at, name in enumerate(names)}


def retrieval_chance(documents: int, relevant: Sequence[Sequence[int]]) -> dict[str, float]:
    """What a random order is expected to reach, exactly."""
    sizes = [len(set(one)) for one in relevant]
    discounts = _gain(np.arange(1.0, min(DEPTH, documents) + 1))
    found = {f"recall@{cut}": min(cut / documents, 1.0) for cut in CUTS}
    firsts = {size: _first(documents, size) for size in set(sizes)}
    ideals = {size: _gain(np.arange(1.0, size + 1)) for size in set(sizes)}
    found["mrr"] = float(np.mean([firsts[size] for size in sizes]))
    found[f"ndcg@{DEPTH}"] = float(np.mean([size / documents * discounts / ideals[size] for size in sizes]))
    return found


def _first(documents: int, size: int) -> float:
    """The expected reciprocal rank of the first of `size` relevant ones in a random order."""
    total, none_yet = 0.0, 1.0
    for rank in range(1, documents - size + 2):
        hit = size / (documents - rank + 1)
        total += none_yet * hit / rank
        none_yet *= 1 - hit
        if none_yet < 1e-18:
            break
    return total if math.isfinite(total) else 0.0
