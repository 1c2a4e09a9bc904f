"""What the scoring of every task shares: checks, guessing, and the table of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from bertworks.errors import InputError

from . import classification
from .classification import Ints
from .intervals import Floats
from .scores import Interval


def matching(gold: Any, predicted: Any, what: str) -> None:
    """As many of one as of the other, and at least one."""
    if len(gold) != len(predicted):
        raise InputError(f"{len(gold)} gold answers, but {len(predicted)} {what}", "predict the rows that are scored")
    if not len(gold):
        raise InputError("no examples to score", "the data has no labelled rows")


def finite(values: Floats, what: str) -> None:
    """Every number is one; else an error that names the example."""
    wrong = ~np.isfinite(values)
    if wrong.any():
        row = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(1))[0])
        raise InputError(
            f"the {what} of example {row + 1} is not a number",
            "a model that answers so has diverged: train it at a lower rate, or look at its loss",
        )


def first_of(values: dict[str, Floats]) -> dict[str, float]:
    return {name: float(one[0]) for name, one in values.items()}


def undefined(metrics: dict[str, float], *names: str) -> tuple[str, ...]:
    why = {
        "auc": "gold has one class alone",
        "pearson": "gold or predicted numbers are all the same",
        "spearman": "gold or predicted numbers are all the same",
        "kendall": "gold or predicted numbers are all the same",
    }
    return tuple(f"{name} is not defined: {why[name]}" for name in names if np.isnan(metrics[name]))


def with_classes(figures: Any, extra: int = 0) -> Any:
    """The same figures, and each class's F1 by its number. extra: columns after the 3 × classes."""

    def values(sums: Floats) -> dict[str, Floats]:
        width = sums.shape[1] - extra
        return {**figures(sums), **classification.class_f1(sums[:, :width])} if width else figures(sums)

    return values


def named(spans: dict[str, Interval]) -> dict[str, Interval]:
    return {name: span for name, span in spans.items() if not name.isdigit()}


def class_details(rows: Floats, counts: Ints, labels: tuple[str, ...], spans: dict[str, Interval]) -> dict[str, Any]:
    """rows: (kinds, 3, classes) hits, predicted, gold; spans: of each class's F1, by its number."""
    sums = np.tensordot(counts.astype(np.float64), rows, 1)
    table = classification.by_class(sums[0], sums[1], sums[2], labels)
    for at, line in enumerate(table):
        low, high = spans.get(str(at), (line["f1"], line["f1"]))
        line |= {"f1_low": low, "f1_high": high}
    return {"labels": list(labels), "classes": table}
