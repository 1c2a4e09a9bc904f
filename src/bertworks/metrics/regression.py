"""Figures of numbers against numbers: correlations and errors.

A correlation with something that does not vary is not defined: nan, and whoever scores says so.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .classification import ratio
from .intervals import Floats, Statistic

FLAT = 1e-13  # a spread smaller than this share of the size is rounding


def pearson(first: ArrayLike, second: ArrayLike) -> float:
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    return float(weighted_pearson(one[None], two[None], np.ones((1, len(one))))[0])


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Pearson's of the ranks; equal values share the mean of their ranks."""
    return pearson(ranks(first), ranks(second))


def kendall(first: ArrayLike, second: ArrayLike) -> float:
    """Kendall's tau-b, which allows for ties."""
    one, two = np.asarray(first, np.float64), np.asarray(second, np.float64)
    number = len(one)
    if number < 2 or not (np.isfinite(one).all() and np.isfinite(two).all()):
        return math.nan
    order = np.lexsort((two, one))
    left, right = one[order], two[order]
    pairs = number * (number - 1) // 2
    tied_left, tied_right = _tied(left), _tied(right)
    both = _tied(np.unique(np.stack([left, right]), axis=1, return_inverse=True)[1].reshape(-1))
    seen: list[float] = []
    discordant = 0
    for value in right.tolist():  # pairs of equal `left` stand in order of `right`, so none of them counts
        discordant += len(seen) - bisect_right(seen, value)
        insort(seen, value)
    below = math.sqrt(pairs - tied_left) * math.sqrt(pairs - tied_right)
    concordance = pairs - tied_left - tied_right + both - 2 * discordant
    return concordance / below if below else math.nan


def ranks(values: ArrayLike) -> Floats:
    """(examples,) ranks from 1; equal values share the mean of theirs."""
    given = np.asarray(values, np.float64)
    return np.asarray(WeightedRanks(given)(np.ones((1, len(given))))[0])


class WeightedRanks:
    """Ranks as a function of how often each example counts: (resamples, examples) → the same shape."""

    def __init__(self, values: ArrayLike) -> None:
        given = np.asarray(values, np.float64)
        self.nowhere = bool(np.isnan(given).any())
        _, self.group = np.unique(given, return_inverse=True)
        self.order = np.argsort(self.group, kind="stable")
        placed = self.group[self.order]
        self.starts = np.flatnonzero(np.diff(placed, prepend=-1))

    def __call__(self, counts: Floats) -> Floats:
        if self.nowhere or not len(self.group):
            return np.full(counts.shape, np.nan)
        sizes = np.add.reduceat(counts[:, self.order], self.starts, axis=1)
        middles = np.cumsum(sizes, 1) - (sizes - 1) / 2
        return np.asarray(middles[:, self.group], np.float64)


def weighted_pearson(first: Floats, second: Floats, counts: Floats) -> Floats:
    """(resamples, examples) each, or one row for all → (resamples,). Centred before anything is squared."""
    total = counts.sum(1, keepdims=True)
    if not counts.shape[1]:
        return np.full(len(counts), np.nan)
    one = first - (first * counts).sum(1, keepdims=True) / total
    two = second - (second * counts).sum(1, keepdims=True) / total
    spread = np.sqrt((counts * one * one).sum(1)) * np.sqrt((counts * two * two).sum(1))
    flat = _flat(first, one, counts) | _flat(second, two, counts)
    return np.asarray(np.clip(ratio((counts * one * two).sum(1), np.where(flat, 0, spread), np.nan), -1, 1))


def _flat(values: Floats, centred: Floats, counts: Floats) -> NDArray[np.bool_]:
    """Whether what counts is one value, up to the rounding of a mean."""
    there = counts > 0
    size = np.where(there, np.abs(values), 0).max(1)
    return np.asarray(np.where(there, np.abs(centred), 0).max(1) <= FLAT * size)


def _tied(values: NDArray[np.float64] | NDArray[np.intp]) -> int:
    """Pairs of equal values."""
    sizes = np.unique(values, return_counts=True)[1]
    return int((sizes * (sizes - 1) // 2).sum())


def correlation_statistic(gold: ArrayLike, predicted: ArrayLike) -> Statistic:
    """{"pearson", "spearman"} of counts."""
    one, two = np.asarray(gold, np.float64), np.asarray(predicted, np.float64)
    left, right = WeightedRanks(one), WeightedRanks(two)

    def values(counts: Floats) -> dict[str, Floats]:
        return {
            "pearson": weighted_pearson(one[None], two[None], counts),
            "spearman": weighted_pearson(left(counts), right(counts), counts),
        }

    return values


def error_rows(gold: ArrayLike, predicted: ArrayLike) -> Floats:
    """(examples, 3): one, squared error, absolute error."""
    apart = np.asarray(predicted, np.float64) - np.asarray(gold, np.float64)
    return np.stack([np.ones_like(apart), apart**2, np.abs(apart)], 1)


def error_figures(sums: Floats) -> dict[str, Floats]:
    number = np.where(sums[:, 0] > 0, sums[:, 0], np.nan)
    return {"mse": sums[:, 1] / number, "rmse": np.sqrt(sums[:, 1] / number), "mae": sums[:, 2] / number}
