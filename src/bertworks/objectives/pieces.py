"""What every layout comes down to: rows of pieces, a piece being a stretch of the store and what frames it.

A piece's mark is one byte: whether [CLS] stands before it (and so a new sequence begins), how many [SEP] after it,
whether it is the second segment, and the answer of the pair task, told at the piece that begins the sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CLS, SEPS, SECOND, ANSWER = 0, 1, 3, 4  # where each begins in the mark's bits
NO_ANSWER = 3


@dataclass(frozen=True)
class Pieces:
    """rows [rows + 1] where each row begins among the pieces; start, length and mark [pieces]."""

    rows: NDArray[np.int64]
    start: NDArray[np.int64]
    length: NDArray[np.uint16]
    mark: NDArray[np.uint8]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """[pieces] with their special tokens."""
        sizes: NDArray[np.int64] = self.length.astype(np.int64) + (self.mark & 1) + ((self.mark >> SEPS) & 3)
        return sizes

    @property
    def row_sizes(self) -> NDArray[np.int64]:
        """[rows] tokens, special ones among them."""
        edges = np.concatenate([[0], np.cumsum(self.sizes)])
        sizes: NDArray[np.int64] = np.diff(edges[self.rows])
        return sizes


def marks(
    *,
    cls: NDArray[np.bool_] | bool,
    seps: NDArray[np.int64] | int,
    second: NDArray[np.bool_] | bool = False,
    answer: NDArray[np.int64] | int = NO_ANSWER,
) -> NDArray[np.uint8]:
    """The mark of each piece."""
    made = (
        np.asarray(cls).astype(np.uint8)
        | (np.asarray(seps).astype(np.uint8) << SEPS)
        | (np.asarray(second).astype(np.uint8) << SECOND)
        | (np.asarray(answer).astype(np.uint8) << ANSWER)
    )
    return made.astype(np.uint8)


def spread(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole numbers from each start on, as many as its count, one after another.

    >>> spread(np.array([10, 50]), np.array([3, 2])).tolist()
    [10, 11, 12, 50, 51]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    found: NDArray[np.int64] = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return found
