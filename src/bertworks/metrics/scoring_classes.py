"""Scores of classification: one label a text, or several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertworks.errors import InputError

from . import calibration, classification
from .classification import Ints
from .details import class_details, finite, first_of, matching, named, undefined, with_classes
from .intervals import RESAMPLES, Floats, Seed, bootstrap, merged, of_sums, once
from .scores import Interval, Scores

RANKED = 100_000_000  # examples × classes × resamples that one-against-the-rest curves may take
FEWEST = 100
CLASSES = 400  # a larger confusion matrix is left out of the details: nobody reads it


def score_classify(
    gold: Any,
    probabilities: ArrayLike,
    labels: Sequence[str],
    thresholds: ArrayLike | None = None,
    seed: Seed = 0,
    resamples: int = RESAMPLES,
) -> Scores:
    """One label a text, or several.

    gold: (examples,) label names or numbers; or, of several labels, (examples, labels) 0/1, or lists of names.
    probabilities: (examples, labels). thresholds: of several labels, from where each is predicted; one half unless
    given.
    """
    names, table = tuple(labels), np.asarray(probabilities, np.float64)
    matching(gold, table, "probabilities")
    if table.ndim != 2 or table.shape[1] != len(names):
        raise InputError(
            f"probabilities of shape {table.shape} for {len(names)} labels", "one row a text, one column a label"
        )
    finite(table, "probability")
    answers = _gold(gold, names)
    random = np.random.default_rng(seed)
    if answers.ndim == 2:
        cuts = np.full(len(names), 0.5) if thresholds is None else np.asarray(thresholds, np.float64)
        return _several(answers, table, names, cuts, random, resamples)
    return _single(answers, table, names, random, resamples)


def _gold(gold: Any, labels: tuple[str, ...]) -> NDArray[Any]:
    """(examples,) class numbers, or (examples, labels) 0/1."""
    if not isinstance(gold, np.ndarray) and isinstance(gold[0], (list, tuple, set, frozenset)):
        # Rows of numbers as wide as there are labels are 0/1 already; anything else is names or numbers.
        flags = all(len(row) == len(labels) and set(row) <= {0, 1} and isinstance(row, (list, tuple)) for row in gold)
        if flags and not any(isinstance(one, str) for row in gold for one in row):
            return np.asarray(gold, np.int64)
        matrix = np.zeros((len(gold), len(labels)), np.int64)
        for at, row in enumerate(gold):
            matrix[at, classification.class_numbers(list(row), labels, "label")] = 1 if row else 0
        return matrix
    given = np.asarray(gold)
    if given.ndim == 2:
        return given.astype(np.int64)
    return classification.class_numbers(given, labels, "label")


def _single(gold: Ints, table: Floats, labels: tuple[str, ...], random: np.random.Generator, resamples: int) -> Scores:
    predicted, number = table.argmax(1), len(labels)
    matrix = classification.confusion(gold, predicted, number)
    here = np.argwhere(matrix > 0)
    counts = matrix[matrix > 0]
    rows = classification.pair_rows(here[:, 0], here[:, 1], number)
    whole = of_sums(rows, classification.class_figures)
    metrics = once(whole, counts)
    spans = bootstrap(of_sums(rows, with_classes(classification.class_figures)), counts, random, resamples)
    more, more_spans = _probable(gold, table, random, resamples)
    chance = np.repeat(matrix.sum(1, keepdims=True) / number, number, 1)
    most = np.zeros_like(matrix)
    most[:, matrix.sum(1).argmax()] = matrix.sum(1)
    guesses = {"chance": chance, "majority": most}
    baselines = {name: first_of(classification.class_figures(classification.confusion_sums(one)))
                 for name, one in guesses.items()}  # fmt: skip
    for one in baselines.values():
        one["auc"] = 0.5
    details = class_details(rows.reshape(len(rows), 3, -1), counts, labels, spans)
    if number <= CLASSES:
        details["confusion"] = matrix.tolist()
    details["bins"] = calibration.bin_table(*calibration.decisions(gold, table))
    return Scores(
        metrics | more, named(spans) | more_spans, len(gold), baselines, details, undefined(metrics | more, "auc")
    )


def _several(
    gold: Ints, table: Floats, labels: tuple[str, ...], cuts: Floats, random: np.random.Generator, resamples: int
) -> Scores:
    number = len(gold)
    figures = classification.label_figures(number)
    kinds, counts = merged(classification.label_rows(gold, table >= cuts))
    metrics = once(of_sums(kinds, figures), counts)
    spans = bootstrap(of_sums(kinds, with_classes(figures, 2)), counts, random, resamples)
    more, more_spans = _probable(gold, table, random, resamples)
    share = gold.mean(0)
    common = share >= min(0.5, share.max())
    most = np.broadcast_to(common, gold.shape)
    coins = np.concatenate([gold.sum(0) / 2, np.full(len(labels), number / 2), gold.sum(0)])[None]
    averages = classification.averaged(*np.split(coins, 3, axis=1))
    baselines = {
        "chance": first_of(averages) | {"accuracy": 0.5 ** len(labels), "auc": 0.5},
        "majority": first_of(figures(classification.label_rows(gold, most).sum(0)[None])) | {"auc": 0.5},
    }
    details = class_details(kinds[:, :-2].reshape(len(kinds), 3, -1), counts, labels, spans)
    details["bins"] = calibration.bin_table(*calibration.decisions(gold, table))
    return Scores(metrics | more, named(spans) | more_spans, number, baselines, details,
                  undefined(metrics | more, "auc"))  # fmt: skip


def _probable(
    gold: Ints, table: Floats, random: np.random.Generator, resamples: int
) -> tuple[dict[str, float], dict[str, Interval]]:
    """Figures of probabilities: AUC, log loss, Brier's, calibration errors; and their intervals."""
    sure, right = calibration.decisions(gold, table)
    per_text = len(sure) // len(gold)
    even, filled = (
        calibration.bin_rows(sure, right, by(sure, calibration.BINS)).reshape(len(gold), per_text, -1).sum(1)
        for by in (calibration.even_bins, calibration.filled_bins)
    )
    losses = np.stack([classification.log_losses(gold, table), classification.briers(gold, table)], 1)
    width = even.shape[1]

    def figures(sums: Floats) -> dict[str, Floats]:
        number = sums[:, 2 + width - 1] / per_text
        return {
            "log_loss": sums[:, 0] / number,
            "brier": sums[:, 1] / number,
            "calibration_error": calibration.bin_error(sums[:, 2 : 2 + width]),
            "calibration_error_adaptive": calibration.bin_error(sums[:, 2 + width :]),
        }

    curve = classification.auc_statistic(table, gold)
    summed = of_sums(np.concatenate([losses, even, filled], 1), figures)

    def all_of(counts: Floats) -> dict[str, Floats]:
        return curve(counts) | summed(counts)

    ones = np.ones(len(gold), np.int64)
    metrics = once(all_of, ones)
    curves = 1 if table.shape[1] == 2 and gold.ndim == 1 else table.shape[1]
    affordable = max(FEWEST, RANKED // max(len(gold) * curves, 1))
    if affordable >= resamples:
        return metrics, bootstrap(all_of, ones, random, resamples)
    spans = bootstrap(summed, ones, random, resamples)
    return metrics, bootstrap(curve, ones, random, affordable) | spans
