"""How far a figure can be trusted: bootstrap over examples, and the spread over seeds.

A figure is written as a `Statistic`: a function of how often each example counts. One row of ones gives the figure
itself; rows of drawn counts give what it would have been on other samples of the same size. Most figures are functions
of sums over examples (hits, totals), so a thousand resamples are one matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertworks.errors import InputError

from .scores import Interval

Floats = NDArray[np.float64]
Seed = int | np.random.Generator
Statistic = Callable[[Floats], dict[str, Floats]]
"""(resamples, examples) counts → for each figure (resamples,) values."""

RESAMPLES = 1000
LEVEL = 0.95
CELLS = 4_000_000  # counts held at once: 32 MB


def of_sums(rows: ArrayLike, figures: Callable[[Floats], dict[str, Floats]]) -> Statistic:
    """A statistic that is a function of sums: rows (examples, columns), figures of (resamples, columns) sums."""
    table = np.asarray(rows, np.float64)
    return lambda counts: figures(counts @ table)


def merged(rows: ArrayLike) -> tuple[Floats, NDArray[np.int64]]:
    """Equal rows once, and how often each is there. Drawing among few kinds is much faster than among all examples."""
    table = np.asarray(rows, np.float64)
    kinds, counts = np.unique(table, axis=0, return_counts=True)
    return kinds, counts.astype(np.int64)


def once(statistic: Statistic, counts: ArrayLike) -> dict[str, float]:
    """The figures themselves."""
    found = statistic(np.asarray(counts, np.float64)[None])
    return {name: float(values[0]) for name, values in found.items()}


def drawn(counts: ArrayLike, resamples: int, seed: Seed) -> Iterator[Floats]:
    """Counts of resamples, some rows at a time: each draws as many examples as there are, with replacement."""
    random = np.random.default_rng(seed)
    have = np.asarray(counts, np.int64)
    total, kinds = int(have.sum()), len(have)
    step = max(1, CELLS // max(kinds, 1))
    for first in range(0, resamples, step):
        rows = min(step, resamples - first)
        if kinds * 4 < total:
            yield random.multinomial(total, have / total, size=rows).astype(np.float64)
        else:
            edges = np.cumsum(have)
            picks = random.integers(0, total, (rows, total), dtype=np.int32)
            if kinds < total:
                picks = np.searchsorted(edges, picks, "right").astype(np.int32)
            picks += np.arange(rows, dtype=np.int32)[:, None] * kinds
            yield np.bincount(picks.reshape(-1), minlength=rows * kinds).reshape(rows, kinds).astype(np.float64)


def bootstrap(
    statistic: Statistic, counts: ArrayLike, seed: Seed = 0, resamples: int = RESAMPLES, level: float = LEVEL
) -> dict[str, Interval]:
    """Percentile intervals of every figure; one that no resample defines has none."""
    if np.sum(counts) == 0:
        return {}
    parts = [statistic(weights) for weights in drawn(counts, resamples, seed)]
    return {
        name: interval
        for name in parts[0]
        if (interval := percentiles(np.concatenate([part[name] for part in parts]), level)) is not None
    }


def paired(
    rows: tuple[ArrayLike, ArrayLike],
    figures: Callable[[Floats], dict[str, Floats]],
    seed: Seed = 0,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
) -> dict[str, tuple[float, Interval]]:
    """Second system minus first on the same examples: for each figure the difference and its interval.

    rows: both systems' (examples, columns) in the same order; each resample draws the same examples of both.
    """
    one, two = (np.asarray(table, np.float64) for table in rows)
    if one.shape != two.shape:
        raise InputError(
            f"two systems on the same examples have rows of one shape, not {one.shape} and {two.shape}",
            "score both on the same file",
        )
    width = one.shape[1]

    def differences(sums: Floats) -> dict[str, Floats]:
        first, second = figures(sums[:, :width]), figures(sums[:, width:])
        return {name: second[name] - first[name] for name in first}

    kinds, counts = merged(np.concatenate([one, two], 1))
    statistic = of_sums(kinds, differences)
    spans = bootstrap(statistic, counts, seed, resamples, level)
    return {name: (value, spans.get(name, (math.nan, math.nan))) for name, value in once(statistic, counts).items()}


def of_any(metric: Callable[[Any, Any], float], gold: Any, predicted: Any) -> Statistic:
    """Any function of (gold, predicted) rows as a statistic, by repeating rows: slow, and needs nothing of it."""
    first, second = _objects(gold), _objects(predicted)

    def values(counts: Floats) -> dict[str, Floats]:
        picks = [np.repeat(np.arange(len(first)), row.astype(np.int64)) for row in counts]
        return {"value": np.array([metric(first[pick], second[pick]) for pick in picks], np.float64)}

    return values


def percentiles(values: ArrayLike, level: float = LEVEL) -> Interval | None:
    """The middle `level` of the values that are numbers; None where there are none."""
    real = np.asarray(values, np.float64)
    real = real[~np.isnan(real)]
    if not len(real):
        return None
    low, high = np.percentile(real, [50 * (1 - level), 50 * (1 + level)])
    return float(low), float(high)


def over_seeds(values: Sequence[float], level: float = LEVEL) -> tuple[float, Interval]:
    """The mean of a few runs and its interval by Student's t; of one run the interval is not known (nan)."""
    if not values:
        raise InputError("a mean over seeds needs at least one run", "give the figure of each seed")
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, (math.nan, math.nan)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    reach = t_quantile(0.5 + level / 2, len(values) - 1) * error
    return mean, (mean - reach, mean + reach)


def t_quantile(share: float, freedom: int) -> float:
    """Where Student's t with whole degrees of freedom has `share` below it (0.5 ≤ share < 1)."""
    low, high = 0.0, 1.0
    while _t_share(high, freedom) < share:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _t_share(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def _t_share(value: float, freedom: int) -> float:
    """Student's cumulative share at value ≥ 0, by its finite series for whole degrees of freedom."""
    angle = math.atan2(value, math.sqrt(freedom))
    cosine = math.cos(angle) ** 2
    term = math.sin(angle) if freedom % 2 == 0 else math.sin(angle) * math.cos(angle)
    total = 0.0
    for power in range(freedom % 2, freedom - 1, 2):
        total += term
        term *= cosine * (power + 1) / (power + 2)
    middle = total if freedom % 2 == 0 else 2 / math.pi * (angle + total)
    return 0.5 + middle / 2


def _objects(values: Any) -> NDArray[Any]:
    """An array that can be picked from; rows of unequal length stay whole."""
    if isinstance(values, np.ndarray):
        return values
    made = np.empty(len(values), object)
    for at, value in enumerate(values):
        made[at] = value
    return made
