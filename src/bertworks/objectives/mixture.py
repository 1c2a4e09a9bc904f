"""Several stores as one line of examples, in shares by weight.

Which store the i-th row comes from is arithmetic: of any number of rows at the line's beginning, each store has its
share of them to within a row or so. Each store's rows come in the order of its own line, epoch after epoch of its own,
so a small store with a large weight is simply gone through more often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import InputError

from .batches import Examples, Part, Place, TrainingBatch, share_of
from .rows import Rows

LARGEST = 1 << 31  # the weights' sum: its square is what 64 bits hold
BY_ROW = ("ids", "segments", "sequences", "begins", "own")  # the arrays of `Rows` that are [rows, length]


class Mixture:
    """The examples of several stores; used as `Examples` are.

    weights: relative shares of the rows; without them each store's is the number of its examples, so that all are gone
    through equally often. An epoch of the mixture is as many rows as the stores have together, whatever the weights.
    """

    def __init__(self, members: Sequence[Examples], weights: Sequence[Fraction] | None = None) -> None:
        self.members = list(members)
        self.rows = sum(one.count(0) for one in members)
        self.weights = whole_numbers(weights or [Fraction(one.count(0)) for one in members])

    def count(self, epoch: int) -> int:  # noqa: ARG002 - all are of one size
        """Rows of an epoch."""
        return self.rows

    def shares(self) -> list[float]:
        """[stores] of the rows."""
        return [weight / sum(self.weights) for weight in self.weights]

    def after(self, place: Place, rows: int) -> Place:
        """The place that many rows further on."""
        more, position = divmod(place.position + rows, self.rows)
        return Place(place.epoch + more, position)

    def batch(self, place: Place, rows: int, *, rank: int = 0, ranks: int = 1) -> TrainingBatch:
        """The `rows` rows that come next; of these, one of `ranks` equal shares."""
        share = share_of(rows, rank, ranks)
        first = place.epoch * self.rows + place.position + rank * share
        owners, before = owners_of(first, share, self.weights)
        parts: list[Part] = []
        for number, member in enumerate(self.members):
            wanted = int((owners == number).sum())
            if wanted:
                parts += member.parts(self._place(member, before[number]), wanted)
        return self.members[0].joined([_placed(parts, np.argsort(owners, kind="stable"))])

    def _place(self, member: Examples, rows: int) -> Place:
        """Where a store's own line is after that many of its rows."""
        copies = member.objective.copies if member.objective.holds_pairs else 1
        epoch = sums = 0
        while rows >= (count := member.count(epoch)):
            rows, epoch, sums = rows - count, epoch + 1, sums + count
            if epoch == copies:  # from here on epochs come again in the same sizes: the rest is a division
                epoch, rows = copies * (1 + rows // sums), rows % sums
        return Place(epoch, rows)


def owners_of(first: int, rows: int, weights: Sequence[int]) -> tuple[NDArray[np.int64], list[int]]:
    """[rows] the store of each row from number `first` on, and how many rows each store has before `first`.

    The first store takes its share of all rows, evenly spread; the second its share of those that are left; and so on.

    >>> owners_of(0, 8, [2, 1, 1])[0].tolist(), owners_of(6, 2, [2, 1, 1])[1]
    ([2, 0, 1, 0, 2, 0, 1, 0], [3, 1, 2])
    """
    owners = np.full(rows, len(weights) - 1)
    left = np.arange(rows)  # rows that no store has yet
    before = []
    total = sum(weights)
    for number, weight in enumerate(weights[:-1]):
        # Rows up to the n-th: n·weight/total, rounded down. Whole rounds of `total` rows are taken out beforehand, so
        # that the product stays within 64 bits.
        done, start = divmod(first, total)
        steps = (start + np.arange(len(left) + 1, dtype=np.int64)) // total * weight
        steps += (start + np.arange(len(left) + 1, dtype=np.int64)) % total * weight // total
        taken = np.diff(steps) > 0
        owners[left[taken]] = number
        left = left[~taken]
        before.append(done * weight + int(steps[0]))
        first, total = first - before[-1], total - weight
    return owners, [*before, first]


def whole_numbers(weights: Sequence[Fraction]) -> list[int]:
    """Weights in the same proportion as whole numbers, the least that do unless that is too large for 64 bits.

    >>> whole_numbers([Fraction("0.7"), Fraction("0.3")])
    [7, 3]
    """
    if any(weight <= 0 for weight in weights):
        raise InputError("a weight is not above 0", "leave out stores that are not wanted")
    common = math.lcm(*(weight.denominator for weight in weights))
    found = [int(weight * common) for weight in weights]
    found = [one // math.gcd(*found) for one in found]
    if (total := sum(found)) > LARGEST - len(found):
        found = [max(1, one * (LARGEST - len(found)) // total) for one in found]
    return found


def _placed(parts: list[Part], to: NDArray[np.int64]) -> Part:
    """Parts as one, their rows put elsewhere: to [rows] is where each goes."""
    source = np.argsort(to)
    length = parts[0][2].shape[1]

    def moved(arrays: list[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate(arrays)[source]

    rows = [part[0] for part in parts]
    edges = np.cumsum([0, *(one.ids.size for one in rows)])
    firsts = np.concatenate([one.firsts + edge for one, edge in zip(rows, edges, strict=False)])
    firsts = to[firsts // length] * length + firsts % length
    order = np.argsort(firsts)
    answers = np.concatenate([one.answers for one in rows])[order]
    whole = {name: moved([getattr(one, name) for one in rows]) for name in BY_ROW}
    made = Rows(**whole, firsts=firsts[order], answers=answers)
    return made, moved([part[1] for part in parts]), moved([part[2] for part in parts])
