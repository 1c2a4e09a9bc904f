"""Figures of classification: from a confusion matrix, from scores, and of several labels a text.

Where a figure divides by nothing (no prediction of a class, one class only) it follows scikit-learn: precision,
recall and F1 are 0, Matthews' coefficient is 0, the area under the curve is not defined (nan).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertworks.errors import InputError

from .intervals import Floats, Statistic

Ints = NDArray[np.int64]


def confusion(gold: ArrayLike, predicted: ArrayLike, classes: int) -> Ints:
    """(classes, classes) counts: rows are gold, columns predicted. gold and predicted: (examples,) class numbers."""
    first, second = np.asarray(gold, np.int64), np.asarray(predicted, np.int64)
    return np.bincount(first * classes + second, minlength=classes * classes).reshape(classes, classes)


def ratio(above: ArrayLike, below: ArrayLike, otherwise: float = 0.0) -> Floats:
    """above / below, and `otherwise` where below is 0."""
    top, bottom = np.broadcast_arrays(np.asarray(above, np.float64), np.asarray(below, np.float64))
    found: Floats = np.divide(top, bottom, out=np.full(top.shape, otherwise), where=bottom != 0)
    return found


def f1_of(hits: ArrayLike, predicted: ArrayLike, gold: ArrayLike) -> Floats:
    """F1 from counts, of any shape."""
    return ratio(2 * np.asarray(hits, np.float64), np.asarray(predicted, np.float64) + np.asarray(gold, np.float64))


def pair_rows(gold: ArrayLike, predicted: ArrayLike, classes: int) -> Floats:
    """(examples, 3 × classes): whether each class is hit, predicted, gold; what `class_figures` sums."""
    first, second = np.asarray(gold, np.int64), np.asarray(predicted, np.int64)
    rows = np.zeros((len(first), 3, classes))
    at = np.arange(len(first))
    rows[at, 1, second] = 1
    rows[at, 2, first] = 1
    rows[:, 0] = rows[:, 1] * rows[:, 2]
    return rows.reshape(len(first), 3 * classes)


def averaged(hits: Floats, predicted: Floats, gold: Floats) -> dict[str, Floats]:
    """Micro, macro and weighted F1, precision and recall; (..., classes) counts → (...).

    Macro is over the classes that are there at all, gold or predicted: a class that no example of this file has
    says nothing about the model.
    """
    precision, recall, f1 = ratio(hits, predicted), ratio(hits, gold), f1_of(hits, predicted, gold)
    there = (predicted + gold) > 0
    number = there.sum(-1)
    return {
        "f1_micro": f1_of(hits.sum(-1), predicted.sum(-1), gold.sum(-1)),
        "f1_macro": ratio((f1 * there).sum(-1), number),
        "f1_weighted": ratio((f1 * gold).sum(-1), gold.sum(-1)),
        "precision_macro": ratio((precision * there).sum(-1), number),
        "recall_macro": ratio((recall * there).sum(-1), number),
    }


def class_figures(sums: Floats) -> dict[str, Floats]:
    """(resamples, 3 × classes) sums of `pair_rows` → accuracy, the averages, Matthews; with two classes, the F1 of
    the second as well."""
    counts = sums.reshape(len(sums), 3, -1)
    hits, predicted, gold = counts[:, 0], counts[:, 1], counts[:, 2]
    total = gold.sum(-1)
    found = {"accuracy": ratio(hits.sum(-1), total)}
    if counts.shape[-1] == 2:
        found["f1"] = f1_of(hits[:, 1], predicted[:, 1], gold[:, 1])
    return found | averaged(hits, predicted, gold) | {"matthews": _matthews(hits, predicted, gold)}


def _matthews(hits: Floats, predicted: Floats, gold: Floats) -> Floats:
    total = gold.sum(-1)
    agreement = hits.sum(-1) * total - (predicted * gold).sum(-1)
    left = total**2 - (predicted**2).sum(-1)
    right = total**2 - (gold**2).sum(-1)
    return ratio(agreement, np.sqrt(np.maximum(left * right, 0)))


def confusion_sums(matrix: ArrayLike) -> Floats:
    """A confusion matrix as one row of sums, for `class_figures`: also of an expected matrix, as of guessing."""
    counts = np.asarray(matrix, np.float64)
    return np.concatenate([np.diag(counts), counts.sum(0), counts.sum(1)])[None]


def by_class(hits: Floats, predicted: Floats, gold: Floats, labels: tuple[str, ...]) -> list[dict[str, Any]]:
    """A line for each class: precision, recall, F1, and how many there are."""
    precision, recall, f1 = ratio(hits, predicted), ratio(hits, gold), f1_of(hits, predicted, gold)
    return [
        {
            "label": label,
            "precision": float(precision[at]),
            "recall": float(recall[at]),
            "f1": float(f1[at]),
            "support": int(gold[at]),
            "predicted": int(predicted[at]),
        }
        for at, label in enumerate(labels)
    ]


def class_f1(sums: Floats) -> dict[str, Floats]:
    """F1 of every class by its number, for their intervals."""
    counts = sums.reshape(len(sums), 3, -1)
    values = f1_of(counts[:, 0], counts[:, 1], counts[:, 2])
    return {str(at): values[:, at] for at in range(values.shape[1])}


def area_under_curve(scores: ArrayLike, positive: ArrayLike) -> Callable[[Floats], Floats]:
    """The area under the ROC curve as a function of counts: (resamples, examples) → (resamples,); ties count half.

    scores: (examples,), more is more likely positive; positive: (examples,) booleans.
    """
    values, wanted = np.asarray(scores, np.float64), np.asarray(positive, bool)
    order = np.argsort(values, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], np.diff(values[order]) != 0])) if len(order) else order
    mask = wanted[order]

    def area(counts: Floats) -> Floats:
        if not len(order):
            return np.full(len(counts), np.nan)
        placed = counts[:, order]
        up = np.add.reduceat(placed * mask, starts, axis=1)
        down = np.add.reduceat(placed * ~mask, starts, axis=1)
        won = (up * (np.cumsum(down, 1) - down / 2)).sum(1)
        pairs = up.sum(1) * down.sum(1)
        return ratio(won, pairs, np.nan)

    return area


def auc_statistic(scores: ArrayLike, gold: ArrayLike) -> Statistic:
    """{"auc": one against the rest, the mean over the classes that have both}; two classes: of the second.

    scores: (examples, classes); gold: (examples,) class numbers or (examples, classes) 0/1.
    """
    table, answers = np.asarray(scores, np.float64), np.asarray(gold)
    several = answers.ndim == 2
    chosen = [1] if table.shape[1] == 2 and not several else range(table.shape[1])
    areas = [area_under_curve(table[:, at], answers[:, at] == 1 if several else answers == at) for at in chosen]

    def values(counts: Floats) -> dict[str, Floats]:
        each = np.stack([area(counts) for area in areas])
        known = ~np.isnan(each)
        number = known.sum(0)
        total = np.where(known, each, 0).sum(0)
        return {"auc": ratio(total, number, np.nan)}

    return values


def label_rows(gold: ArrayLike, predicted: ArrayLike) -> Floats:
    """Several labels a text, both (examples, classes) 0/1 → (examples, 3 × classes + 2): hit, predicted and gold of
    each class, F1 of the text, whether all is right."""
    first, second = np.asarray(gold, bool), np.asarray(predicted, bool)
    both = first & second
    text = f1_of(both.sum(1), second.sum(1), first.sum(1))
    return np.concatenate([both, second, first, text[:, None], (first == second).all(1)[:, None]], 1).astype(np.float64)


def label_figures(number: float) -> Callable[[Floats], dict[str, Floats]]:
    """Figures of the sums of `label_rows` over `number` texts."""

    def figures(sums: Floats) -> dict[str, Floats]:
        counts = sums[:, :-2].reshape(len(sums), 3, -1)
        return {
            "accuracy": ratio(sums[:, -1], number),
            "f1_samples": ratio(sums[:, -2], number),
            **averaged(counts[:, 0], counts[:, 1], counts[:, 2]),
        }

    return figures


def log_losses(gold: ArrayLike, probabilities: ArrayLike) -> Floats:
    """(examples,) losses in nats. gold: class numbers, or 0/1 of each class: then the mean over classes.

    A probability is kept a rounding error away from 0 and 1, so that one wrong certainty is not endless.
    """
    table = np.asarray(probabilities)
    least = float(np.finfo(table.dtype if table.dtype.kind == "f" else np.float64).eps)
    table = np.clip(table.astype(np.float64), least, 1 - least)
    answers = np.asarray(gold)
    if answers.ndim == 2:
        return np.asarray(-np.where(answers == 1, np.log(table), np.log1p(-table)).mean(1))
    return np.asarray(-np.log(table[np.arange(len(answers)), answers]))


def briers(gold: ArrayLike, probabilities: ArrayLike) -> Floats:
    """(examples,) squared errors of the probabilities, summed over classes; of two classes that is halved, as usual,
    and of several labels it is the mean over them."""
    table, answers = np.asarray(probabilities, np.float64), np.asarray(gold)
    if answers.ndim == 2:
        return np.asarray(((table - answers) ** 2).mean(1))
    target = np.zeros_like(table)
    target[np.arange(len(answers)), answers] = 1
    squared: Floats = ((table - target) ** 2).sum(1)
    return squared / 2 if table.shape[1] == 2 else squared


def class_numbers(values: ArrayLike, labels: tuple[str, ...], what: str) -> Ints:
    """Class numbers from numbers or names; an unknown one is an error that names its row."""
    given = np.asarray(values)
    if given.dtype.kind in "iub":
        wrong = np.flatnonzero((given < 0) | (given >= len(labels)))
        if len(wrong):
            raise InputError(
                f"{what} {int(given[wrong[0]])} of example {int(wrong[0]) + 1} is not among {len(labels)} labels",
                "a label is a number from 0, or its name",
            )
        return given.astype(np.int64)
    numbers = {label: at for at, label in enumerate(labels)}
    for row, value in enumerate(given.tolist()):
        if value not in numbers:
            raise InputError(
                f"{what} {value!r} of example {row + 1} is not a label of the model",
                f"its labels are {', '.join(labels[:10])}" + (", ..." if len(labels) > 10 else ""),
            )
    return np.array([numbers[value] for value in given.tolist()], np.int64)
