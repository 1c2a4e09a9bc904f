"""Calibration errors against the definition written out, temperature against scipy, thresholds against every cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import optimize, special
from sklearn import metrics as oracle

from bertworks.metrics import calibration


@settings(deadline=None)
@given(some.integers(1, 60), some.integers(2, 4), some.integers(0, 10**6))
def test_calibration_error_is_its_definition(examples: int, classes: int, seed: int) -> None:
    numbers = np.random.default_rng(seed)
    table = numbers.dirichlet(np.ones(classes), examples)
    gold = numbers.integers(0, classes, examples)
    total = 0.0
    for at in range(15):
        inside = [row for row in range(examples) if at / 15 < table[row].max() <= (at + 1) / 15]
        if inside:
            right = np.mean([table[row].argmax() == gold[row] for row in inside])
            sure = np.mean([table[row].max() for row in inside])
            total += len(inside) / examples * abs(right - sure)
    assert calibration.calibration_error(gold, table) == pytest.approx(total, abs=1e-9)


def test_adaptive_bins_hold_equally_many_and_do_not_depend_on_order() -> None:
    numbers = np.random.default_rng(0)
    sure = numbers.random(1500)
    assert set(np.bincount(calibration.filled_bins(sure)).tolist()) == {100}
    tied = np.round(sure, 1)
    order = numbers.permutation(1500)
    assert (calibration.filled_bins(tied)[order] == calibration.filled_bins(tied[order])).all()
    assert calibration.calibration_error([0] * 4, [[0.75, 0.25]] * 4, by=calibration.filled_bins) == 0.25


def test_perfectly_calibrated_is_near_zero() -> None:
    numbers = np.random.default_rng(0)
    table = numbers.dirichlet([1, 1, 1], 50_000)
    gold = (table.cumsum(1) > numbers.random((50_000, 1))).argmax(1)
    assert calibration.calibration_error(gold, table) < 0.01
    assert calibration.calibration_error(gold, table, by=calibration.filled_bins) < 0.01


@settings(deadline=None)
@given(some.integers(0, 10**6), some.integers(2, 5), some.floats(0.3, 5))
def test_temperature_is_scipys(seed: int, classes: int, scale: float) -> None:
    numbers = np.random.default_rng(seed)
    logits = numbers.normal(size=(200, classes)) * 2
    gold = (special.softmax(logits, 1).cumsum(1) > numbers.random((200, 1))).argmax(1)

    def loss(inverse: float) -> float:
        return float(-special.log_softmax(logits * scale * inverse, 1)[np.arange(200), gold].mean())

    best = optimize.minimize_scalar(loss, bounds=(1 / 20, 1 / 0.05), method="bounded", options={"xatol": 1e-10})
    found = calibration.temperature(logits * scale, gold)
    assert loss(1 / found) <= best.fun + 1e-12
    assert found == pytest.approx(1 / best.x, rel=1e-4)


def test_temperature_of_several_labels_is_of_their_decisions() -> None:
    numbers = np.random.default_rng(0)
    logits = numbers.normal(size=(300, 4)) * 6
    gold = numbers.random((300, 4)) < special.expit(logits / 3)
    found = calibration.temperature(logits, gold.astype(int))
    best = optimize.minimize_scalar(
        lambda inverse: oracle.log_loss(gold.reshape(-1), special.expit(logits * inverse).reshape(-1)),
        bounds=(0.05, 20),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert found == pytest.approx(1 / best.x, rel=1e-4)
    assert found == pytest.approx(3, rel=0.3)


def test_temperature_where_dev_says_nothing() -> None:
    assert calibration.temperature(np.zeros((0, 2)), []) == 1
    assert calibration.temperature([[1.0, 1.0]], [0]) == 1
    assert calibration.temperature([[4.0, 0.0], [0.0, 4.0]], [0, 1]) == calibration.COLDEST
    assert calibration.temperature([[4.0, 0.0], [0.0, 4.0]], [1, 0]) == calibration.HOTTEST


def f1_of_cut(scores: np.ndarray, gold: np.ndarray, cut: float) -> float:
    taken = scores >= cut
    return 2 * (taken & gold).sum() / max(taken.sum() + gold.sum(), 1)


@settings(deadline=None)
@given(some.integers(0, 10**6), some.integers(1, 25), some.sampled_from([3, 1000]))
def test_thresholds_reach_the_best_f1_of_all_cuts(seed: int, examples: int, steps: int) -> None:
    numbers = np.random.default_rng(seed)
    table = numbers.integers(0, steps + 1, (examples, 3)) / steps
    gold = numbers.random((examples, 3)) < [0.5, 0.1, 0.9]
    found = calibration.thresholds(table, gold)
    for at in range(3):
        cuts = [*np.unique(table[:, at]), 2.0]
        f1 = [f1_of_cut(table[:, at], gold[:, at], cut) for cut in cuts]
        ours = f1_of_cut(table[:, at], gold[:, at], found[at])
        if gold[:, at].any():
            assert ours == pytest.approx(max(f1), abs=1e-12)
        else:
            assert found[at] == 0.5


def test_threshold_between_neighbouring_floats_still_parts_them() -> None:
    low = 0.7
    high = float(np.nextafter(low, 1))
    found = calibration.thresholds([[low], [high]], [[0], [1]])[0]
    assert low < found <= high
