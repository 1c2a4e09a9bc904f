"""Whether probabilities mean what they say, and making them: calibration error, temperature, thresholds by label."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .classification import Ints, f1_of, ratio
from .intervals import Floats

BINS = 15
COLDEST, HOTTEST = 0.05, 20.0  # beyond these a temperature says that dev is too small or too easy to tell


def decisions(gold: ArrayLike, probabilities: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
    """(decisions,) confidences, and whether each was right. Of several labels each one is a decision."""
    table, answers = np.asarray(probabilities, np.float64), np.asarray(gold)
    if answers.ndim == 2:
        sure = np.maximum(table, 1 - table)
        return sure.reshape(-1), ((table >= 0.5) == (answers == 1)).reshape(-1)
    if not len(table):
        return np.zeros(0), np.zeros(0, bool)
    return table.max(1), table.argmax(1) == answers


def even_bins(confidence: Floats, bins: int = BINS) -> Ints:
    """The number of each one's bin of equal width; a bin holds its upper edge."""
    edges = np.linspace(0, 1, bins + 1)[1:-1]
    return np.searchsorted(edges, confidence, "left").astype(np.int64)


def filled_bins(confidence: Floats, bins: int = BINS) -> Ints:
    """The number of each one's bin when bins hold equally many; equal confidences share a bin, whatever their order."""
    if not len(confidence):
        return np.zeros(0, np.int64)
    placed = np.sort(confidence)
    edges = placed[[len(placed) * at // bins for at in range(1, bins)]]
    return np.searchsorted(edges, confidence, "right").astype(np.int64)


def bin_rows(confidence: Floats, right: NDArray[np.bool_], bins: Ints, number: int = BINS) -> Floats:
    """(decisions, bins + 1): confidence less right, in the bin of each; and one."""
    rows = np.zeros((len(bins), number + 1))
    rows[np.arange(len(bins)), bins] = confidence - right
    rows[:, -1] = 1
    return rows


def bin_error(sums: Floats) -> Floats:
    """The expected calibration error: the mean over decisions of |confidence − share right| in their bin.

    A bin's weight times its gap is |Σ (confidence − right)| / decisions, so the counts of bins are not needed.
    """
    return ratio(np.abs(sums[:, :-1]).sum(1), sums[:, -1])


def calibration_error(
    gold: ArrayLike, probabilities: ArrayLike, bins: int = BINS, by: Callable[[Floats, int], Ints] = even_bins
) -> float:
    """Expected calibration error; by even_bins (equal width) or filled_bins (adaptive)."""
    sure, right = decisions(gold, probabilities)
    if not len(sure):
        return math.nan
    return float(bin_error(bin_rows(sure, right, by(sure, bins), bins).sum(0)[None])[0])


def bin_table(confidence: Floats, right: NDArray[np.bool_], bins: int = BINS) -> list[dict[str, Any]]:
    """The filled bins of a calibration diagram: edges, how many, their mean confidence and the share right."""
    places = even_bins(confidence, bins)
    count = np.bincount(places, minlength=bins)
    sure = ratio(np.bincount(places, confidence, bins), count)
    share = ratio(np.bincount(places, right, bins), count)
    return [
        {
            "low": at / bins,
            "high": (at + 1) / bins,
            "count": int(count[at]),
            "confidence": float(sure[at]),
            "accuracy": float(share[at]),
        }
        for at in range(bins)
        if count[at]
    ]


def temperature(logits: ArrayLike, gold: ArrayLike) -> float:
    """The temperature that makes dev's gold answers likeliest when logits are divided by it.

    logits: (examples, classes); gold: (examples,) class numbers, or 0/1 of each class (each a decision of its own).
    The loss is convex in the inverse, so its slope has one zero: Newton's steps, halving where they leave the bracket.
    """
    table, answers = np.asarray(logits, np.float64), np.asarray(gold)
    if answers.ndim == 2:
        table = np.stack([np.zeros(table.size), table.reshape(-1)], 1)
        answers = answers.reshape(-1).astype(np.int64)
    if not len(table):
        return 1.0
    low, high = 1 / HOTTEST, 1 / COLDEST
    if _slope(table, answers, low)[0] >= 0:
        return 1.0 if np.ptp(table, axis=1).max() == 0 else HOTTEST
    if _slope(table, answers, high)[0] <= 0:
        return COLDEST
    at = 1.0
    for _ in range(100):
        slope, bend = _slope(table, answers, at)
        low, high = (at, high) if slope < 0 else (low, at)
        step = at - slope / bend if bend > 0 else math.inf
        following = step if low < step < high else (low + high) / 2
        if abs(following - at) <= 1e-14 * at:
            break
        at = following
    return 1 / at


def _slope(logits: Floats, gold: NDArray[Any], inverse: float) -> tuple[float, float]:
    """First and second derivative of the mean loss by the inverse temperature."""
    scaled = logits * inverse
    scaled -= scaled.max(1, keepdims=True)
    share = np.exp(scaled)
    share /= share.sum(1, keepdims=True)
    mean = (share * logits).sum(1)
    spread = (share * (logits - mean[:, None]) ** 2).sum(1)
    return float((mean - logits[np.arange(len(gold)), gold]).mean()), float(spread.mean())


def thresholds(probabilities: ArrayLike, gold: ArrayLike) -> Floats:
    """(classes,) thresholds that reach the best F1 of each label on dev; a label is predicted from its threshold up.

    Every cut between two different scores is tried. Of equally good cuts the one nearest one half is taken, and a
    label that dev never has keeps one half. probabilities, gold: (examples, classes).
    """
    table, answers = np.asarray(probabilities, np.float64), np.asarray(gold, bool)
    return np.array([_threshold(table[:, at], answers[:, at]) for at in range(table.shape[1])])


def _threshold(scores: Floats, gold: NDArray[np.bool_]) -> float:
    if not gold.any():
        return 0.5
    order = np.argsort(-scores, kind="stable")
    placed = scores[order]
    cuts = np.flatnonzero(np.append(placed[:-1] != placed[1:], True)) + 1  # how many stand above each cut
    f1 = f1_of(np.cumsum(gold[order])[cuts - 1], cuts, gold.sum())
    upper = placed[cuts - 1]
    lower = np.append(placed, min(0.0, 2 * placed[-1]))[cuts]
    middles = (upper + lower) / 2
    middles = np.where(middles > lower, middles, upper)  # neighbours among floats have nothing between them
    middles = np.where((lower < 0.5) & (upper >= 0.5), 0.5, middles)  # one half itself, where it cuts the same
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    return float(middles[best[np.argmin(np.abs(middles[best] - 0.5))]])
