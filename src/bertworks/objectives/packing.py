"""Several short examples in one row: which go together is decided on the histogram of their lengths.

There are at most `length` different lengths, so the packing (best fit, longest first) costs the same for a thousand
examples as for a billion; the examples are then dealt out to the places that it made.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from .draws import PACK, bits, key
from .pieces import Pieces, spread

Combination = tuple[int, ...]


def combinations(histogram: NDArray[np.int64], length: int) -> list[tuple[Combination, int]]:
    """histogram [length + 1] of example sizes -> which sizes share a row, and in how many rows."""
    open_rows: dict[int, dict[Combination, int]] = defaultdict(dict)  # by the room that is left

    def put(room: int, combination: Combination, count: int) -> None:
        open_rows[room][combination] = open_rows[room].get(combination, 0) + count

    for size in range(length, 0, -1):
        left = int(histogram[size])
        while left:
            room = next((room for room in range(size, length) if open_rows[room]), None)
            if room is None:
                many = min(length // size, left)
                put(length - many * size, (size,) * many, left // many)
                left -= left // many * many
                continue
            combination, count = open_rows[room].popitem()
            many = min(room // size, left)  # as many as fit of one size, while there are
            rows = min(count, left // many)
            put(room - many * size, combination + (size,) * many, rows)
            if count > rows:
                open_rows[room][combination] = count - rows
            left -= rows * many
    return [(combination, count) for room in sorted(open_rows) for combination, count in open_rows[room].items()]


def packed(base: Pieces, length: int, seed: int) -> Pieces:
    """The rows of `base`, several to a row of `length`."""
    sizes = base.row_sizes
    chance = bits(key(PACK, seed), np.arange(len(sizes)))  # so that neighbours in the text do not always meet
    queue = np.lexsort((chance, sizes))
    histogram = np.bincount(sizes, minlength=length + 1)
    next_of = np.cumsum(histogram) - histogram  # where each size's queue begins
    dealt: list[NDArray[np.int64]] = []
    counts: list[NDArray[np.int64]] = []
    for combination, rows in combinations(histogram, length):
        places = np.empty((rows, len(combination)), np.int64)
        for column, size in enumerate(combination):
            places[:, column] = queue[next_of[size] : next_of[size] + rows]
            next_of[size] += rows
        dealt.append(places.ravel())
        counts.append(np.full(rows, len(combination)))
    order = np.concatenate(dealt)
    pieces_of = np.diff(base.rows)[order]
    at = spread(base.rows[order], pieces_of)
    ends = np.cumsum(pieces_of)[np.cumsum(np.concatenate(counts)) - 1]
    return Pieces(np.concatenate([[0], ends]), base.start[at], base.length[at], base.mark[at])
