"""Figures of classification against scikit-learn's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from sklearn import metrics as oracle

from bertworks.errors import InputError
from bertworks.metrics.scoring import score_classify

NAMES = ("a", "b", "c", "d", "e")
NEAR: Any = {"rel": 1e-9, "abs": 1e-9, "nan_ok": True}


def chances(numbers: Any, gold: Any, classes: int, steps: int) -> Any:
    """Probabilities with many ties: whole parts of `steps`."""
    table = numbers.integers(0, steps + 1, (len(gold), classes)) + 1e-3
    return table / table.sum(1, keepdims=True)


@settings(deadline=None)
@given(some.integers(2, 5), some.integers(1, 40), some.integers(0, 10**6), some.booleans(), some.sampled_from([2, 50]))
def test_one_label(classes: int, examples: int, seed: int, one_class: bool, steps: int) -> None:
    numbers = np.random.default_rng(seed)
    gold = numbers.integers(0, 1 if one_class else classes, examples)
    table = chances(numbers, gold, classes, steps)
    predicted = table.argmax(1)
    ours = score_classify(gold, table, NAMES[:classes], resamples=5).metrics
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours["accuracy"] == pytest.approx(oracle.accuracy_score(gold, predicted), **NEAR)
        assert ours["matthews"] == pytest.approx(oracle.matthews_corrcoef(gold, predicted), **NEAR)
        for mean in ("micro", "macro", "weighted"):
            assert ours[f"f1_{mean}"] == pytest.approx(oracle.f1_score(gold, predicted, average=mean), **NEAR)
        for name, theirs in (("precision", oracle.precision_score), ("recall", oracle.recall_score)):
            wanted = theirs(gold, predicted, average="macro", zero_division=0)
            assert ours[f"{name}_macro"] == pytest.approx(wanted, **NEAR)
        every = list(range(classes))
        assert ours["log_loss"] == pytest.approx(oracle.log_loss(gold, table, labels=every), **NEAR)
        if classes == 2:
            assert ours["f1"] == pytest.approx(oracle.f1_score(gold, predicted), **NEAR)
            assert ours["brier"] == pytest.approx(oracle.brier_score_loss(gold, table[:, 1], pos_label=1), **NEAR)
            there = len(set(gold.tolist())) == 2
            assert ours["auc"] == pytest.approx(oracle.roc_auc_score(gold, table[:, 1]) if there else np.nan, **NEAR)
        else:
            assert ours["brier"] == pytest.approx(oracle.brier_score_loss(gold, table, labels=every), **NEAR)
            if set(gold.tolist()) == set(every):
                wanted = oracle.roc_auc_score(gold, table, multi_class="ovr", average="macro", labels=every)
                assert ours["auc"] == pytest.approx(wanted, **NEAR)


@settings(deadline=None)
@given(some.integers(2, 5), some.integers(1, 30), some.integers(0, 10**6), some.sampled_from([0.0, 0.3, 1.0]))
def test_several_labels(classes: int, examples: int, seed: int, share: float) -> None:
    numbers = np.random.default_rng(seed)
    gold = (numbers.random((examples, classes)) < share).astype(np.int64)
    table = numbers.integers(0, 11, gold.shape) / 10
    cuts = numbers.random(classes)
    predicted = table >= cuts
    scores = score_classify(gold, table, NAMES[:classes], thresholds=cuts, resamples=5)
    ours = scores.metrics
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours["accuracy"] == pytest.approx(oracle.accuracy_score(gold, predicted), **NEAR)
        present = np.flatnonzero(gold.sum(0) + predicted.sum(0))
        for mean in ("micro", "macro", "weighted", "samples"):
            which = present if mean == "macro" and len(present) else None  # of labels that are nowhere, see `averaged`
            wanted = oracle.f1_score(gold, predicted, average=mean, labels=which, zero_division=0)
            assert ours[f"f1_{mean}"] == pytest.approx(wanted, **NEAR)
        both = [at for at in range(classes) if 0 < gold[:, at].sum() < examples]
        wanted = np.mean([oracle.roc_auc_score(gold[:, at], table[:, at]) for at in both]) if both else np.nan
        assert ours["auc"] == pytest.approx(wanted, **NEAR)
        losses = [oracle.log_loss(gold[:, at], table[:, at], labels=[0, 1]) for at in range(classes)]
        assert ours["log_loss"] == pytest.approx(np.mean(losses), **NEAR)
        assert ours["brier"] == pytest.approx(((gold - table) ** 2).mean(), **NEAR)
    table_of = {line["label"]: line for line in scores.details["classes"]}
    each = oracle.precision_recall_fscore_support(gold, predicted, zero_division=0, labels=range(classes))
    for at, name in enumerate(NAMES[:classes]):
        line = table_of[name]
        found = [line["precision"], line["recall"], line["f1"], line["support"]]
        assert found == pytest.approx([part[at] for part in each], **NEAR)


def test_details() -> None:
    numbers = np.random.default_rng(0)
    gold = numbers.integers(0, 3, 60)
    table = chances(numbers, gold, 3, 20)
    scores = score_classify([NAMES[at] for at in gold], table, NAMES[:3])
    assert scores.details["confusion"] == oracle.confusion_matrix(gold, table.argmax(1)).tolist()
    assert sum(one["count"] for one in scores.details["bins"]) == 60
    for line in scores.details["classes"]:
        assert line["f1_low"] <= line["f1"] <= line["f1_high"]


def test_guessing_stands_beside() -> None:
    """Chance's figures are those of guessing each class alike; the majority's those of the commonest class."""
    numbers = np.random.default_rng(1)
    gold = np.repeat([0, 1], [300, 700])
    scores = score_classify(gold, numbers.dirichlet([1, 1], 1000), ("no", "yes"))
    assert scores.baselines["majority"]["accuracy"] == pytest.approx(0.7)
    assert scores.baselines["majority"]["f1"] == pytest.approx(oracle.f1_score(gold, np.ones(1000, int)))
    guesses = [oracle.f1_score(gold, numbers.integers(0, 2, 1000), average="macro") for _ in range(50)]
    assert scores.baselines["chance"]["f1_macro"] == pytest.approx(np.mean(guesses), abs=0.01)


def test_names_of_several_labels() -> None:
    table = [[0.9, 0.2, 0.8], [0.1, 0.2, 0.3]]
    names = score_classify([["c", "a"], []], table, NAMES[:3])
    flags = score_classify(np.array([[1, 0, 1], [0, 0, 0]]), table, NAMES[:3])
    assert names.metrics == flags.metrics
    assert names.metrics["accuracy"] == 1


def test_what_is_not_defined_is_said_and_is_null_in_json() -> None:
    scores = score_classify([0, 0], [[0.9, 0.1], [0.2, 0.8]], ("a", "b"))
    assert "one class" in scores.remarks[0]
    assert scores.json()["metrics"]["auc"] is None
    assert "auc" not in scores.intervals


@pytest.mark.parametrize(
    ("gold", "table", "message"),
    [
        ([], [], "no examples"),
        ([0], [[0.5, 0.5], [0.5, 0.5]], "1 gold answers, but 2"),
        (["z"], [[0.5, 0.5]], "'z' of example 1"),
        ([7], [[0.5, 0.5]], "7 of example 1"),
        ([0], [[0.1, 0.2, 0.7]], "2 labels"),
        ([0, 1], [[0.1, 0.9], [np.nan, 0.2]], "probability of example 2"),
    ],
)
def test_errors(gold: Any, table: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_classify(gold, table, ("a", "b"))
