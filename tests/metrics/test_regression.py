"""Correlations against scipy's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats

from bertworks.errors import InputError
from bertworks.metrics import regression
from bertworks.metrics.scoring import score_regress

VALUES = some.one_of(some.integers(-3, 3).map(float), some.floats(-1e6, 1e6))
PAIRS = some.lists(some.tuples(VALUES, VALUES), min_size=2, max_size=40)


@settings(deadline=None)
@given(PAIRS)
def test_correlations(pairs: list[tuple[float, float]]) -> None:
    gold, predicted = np.array(pairs).T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spearman, kendall = stats.spearmanr(gold, predicted)[0], stats.kendalltau(gold, predicted)[0]
    assert regression.spearman(gold, predicted) == pytest.approx(spearman, abs=1e-9, nan_ok=True)
    assert regression.kendall(gold, predicted) == pytest.approx(kendall, abs=1e-9, nan_ok=True)
    assert (regression.ranks(gold) == stats.rankdata(gold)).all()


@settings(deadline=None)
@given(some.integers(0, 10**6), some.integers(2, 60), some.floats(-3, 3), some.sampled_from([0.0, 100.0, -1e5]))
def test_pearson(seed: int, examples: int, slope: float, shift: float) -> None:
    numbers = np.random.default_rng(seed)
    gold = numbers.normal(size=examples) + shift
    predicted = slope * gold + numbers.normal(size=examples)
    assert regression.pearson(gold, predicted) == pytest.approx(stats.pearsonr(gold, predicted)[0], abs=1e-9)


def test_a_thousand_with_ties() -> None:
    numbers = np.random.default_rng(0)
    gold, predicted = numbers.integers(0, 6, 1500) / 1.0, numbers.integers(0, 30, 1500) / 7.0
    assert regression.spearman(gold, predicted) == pytest.approx(stats.spearmanr(gold, predicted)[0], abs=1e-9)
    assert regression.kendall(gold, predicted) == pytest.approx(stats.kendalltau(gold, predicted)[0], abs=1e-9)


@pytest.mark.parametrize("flat", [0.0, 0.1, 1e9 / 3])
def test_constants_are_not_defined_and_said(flat: float) -> None:
    scores = score_regress([0.1, 0.2, 0.7], [flat] * 3)
    assert np.isnan([scores.metrics[name] for name in ("pearson", "spearman", "kendall")]).all()
    assert len(scores.remarks) == 3
    assert "pearson" not in scores.intervals
    assert scores.json()["metrics"]["spearman"] is None


def test_errors_of_the_mean_stand_beside() -> None:
    gold = [1.0, 2.0, 6.0]
    scores = score_regress(gold, [1.0, 3.0, 4.0])
    assert scores.metrics["mse"] == pytest.approx(5 / 3)
    assert scores.metrics["mae"] == pytest.approx(1)
    assert scores.baselines["mean"]["mse"] == pytest.approx(np.var(gold))


def test_what_is_not_a_number_is_an_error() -> None:
    with pytest.raises(InputError, match="predicted number of example 2"):
        score_regress([1.0, 2.0], [1.0, np.nan])


def test_one_example() -> None:
    scores = score_regress([1.0], [2.0])
    assert np.isnan(scores.metrics["pearson"])
    assert scores.metrics["mse"] == 1
