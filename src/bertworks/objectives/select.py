"""What is chosen for the masked task: tokens, whole words, n-grams or spans of words, all rows at once.

Words are tried in a random order, as published: one is taken with the n-1 words that follow it, if all of it fits in
what the row may still choose, if nothing of it is chosen already and no special token stands between; a longer n-gram
that does not fit is tried shorter. So a row's number is filled to the token where there is any way to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .draws import CHOOSE, COUNT, SPAN, Bits, bits, uniform
from .published import Objective
from .rows import Rows

Mask = NDArray[np.bool_]
LAST = np.uint64(2**64 - 1)


def most_chosen(objective: Objective, length: int) -> int:
    """The most that a row of `length` may choose."""
    return max(1, int(np.ceil(objective.rate * length)))


def quota(objective: Objective, rows: Rows, keys: Bits) -> NDArray[np.int64]:
    """[rows] how many tokens each row is to choose.

    In rows of pairs, as Google's code: the rate of the whole row, special tokens counted, rounded, at least one. In
    others the rate of the text's own tokens, its fraction decided by a draw.
    """
    if objective.holds_pairs:
        wanted = np.rint((rows.sequences > 0).sum(1) * objective.rate)
        wanted = np.maximum(wanted, 1)
    else:
        wanted = np.floor(rows.own.sum(1) * objective.rate + uniform(keys, COUNT))
    most: NDArray[np.int64] = np.minimum(wanted, most_chosen(objective, rows.ids.shape[1])).astype(np.int64)
    return most


def choose(objective: Objective, rows: Rows, keys: Bits) -> Mask:
    """[rows, length] what is chosen. keys [rows]: a row's draws depend on its own key alone."""
    wanted = quota(objective, rows, keys)
    length = rows.ids.shape[1]
    chance = bits(bits(keys, CHOOSE)[:, None], np.arange(length))
    if objective.select == "tokens":
        chance[~rows.own] = LAST
        order = np.argsort(chance, 1)
        ranked = np.arange(length) < np.minimum(wanted, rows.own.sum(1))[:, None]
        chosen = np.zeros(rows.ids.shape, np.bool_)
        np.put_along_axis(chosen, order, ranked, 1)
        return chosen
    span = uniform(bits(keys, SPAN)[:, None], np.arange(length))
    return _Words(rows).chosen(wanted, chance, span, objective)


class _Words:
    """The words of each row, numbered in their order: where each begins, how long it is, and its special neighbours.

    Arrays are [rows, length + n]; a word that is not there has size 0 and may not be chosen.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.number = np.cumsum(rows.begins, 1) - 1  # [rows, length] the word of each token
        count, length = rows.ids.shape
        flat = (np.arange(count)[:, None] * (length + 1) + self.number)[rows.own]
        self.sizes = np.bincount(flat, minlength=count * (length + 1)).reshape(count, length + 1)

    def chosen(self, wanted: NDArray[np.int64], chance: Bits, span: NDArray[np.float64], objective: Objective) -> Mask:
        weights = np.array(objective.span_weights)
        count, width = self.sizes.shape
        # Sizes of n words from each on: past a special token or the row's end the sum is out of reach.
        reach = np.where(self.sizes > 0, self.sizes, 4 * width).astype(np.int64)
        beyond = np.concatenate([reach, np.full((count, len(weights)), 4 * width)], 1)
        sums = np.cumsum([beyond[:, n : n + width] for n in range(len(weights))], 0)  # [n, rows, words]
        drawn = _drawn(weights, (sums < 4 * width).sum(0), span, width)
        chance = np.where(self.sizes[:, :-1] > 0, chance, LAST)
        order = np.argsort(chance, 1)
        words = (self.sizes > 0).sum(1)
        taken = np.zeros((count, width + len(weights)), np.bool_)
        left = wanted.copy()
        every = np.arange(count)
        rows = every[(left > 0) & (words > 0)]
        for rank in range(int(words.max(initial=0))):
            at = order[rows, rank]
            self._take(rows, at, drawn[rows, at], sums, taken, left)
            rows = rows[(left[rows] > 0) & (words[rows] > rank + 1)]
            if not len(rows):
                break
        chosen: Mask = np.take_along_axis(taken, self.number, 1) & self.rows.own
        return chosen

    def _take(
        self,
        rows: NDArray[np.int64],
        at: NDArray[np.int64],
        n: NDArray[np.int64],
        sums: NDArray[Any],
        taken: Mask,
        left: NDArray[np.int64],
    ) -> None:
        """Try the words `at` of `rows` with the n-1 after each, or fewer where that is too much."""
        room = left[rows]
        longest = (sums[:, rows, at] <= room).sum(0)  # sums grow with n
        n = np.minimum(n, longest)
        for step in range(int(n.max(initial=0))):
            n = np.where((step < n) & taken[rows, at + step], 0, n)
        left[rows] -= np.where(n > 0, sums[np.maximum(n, 1) - 1, rows, at], 0)
        for step in range(int(n.max(initial=0))):
            here = step < n
            taken[rows[here], at[here] + step] = True


def _drawn(
    weights: NDArray[np.float64], possible: NDArray[np.int64], span: NDArray[np.float64], width: int
) -> NDArray[np.int64]:
    """[rows, words] how many words are wanted from each on: drawn among those numbers that are possible there."""
    edges = np.concatenate([[0.0], np.cumsum(weights)])
    total = edges[possible[:, : width - 1]]
    wanted = np.searchsorted(edges[1:], span * total, "right") + 1
    drawn: NDArray[np.int64] = np.minimum(wanted, np.maximum(possible[:, : width - 1], 1))
    return drawn
