"""Bootstrap intervals against drawing rows one by one, their coverage, and Student's t against scipy."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats
from sklearn.metrics import f1_score, roc_auc_score

from bertworks.errors import InputError
from bertworks.metrics import intervals
from bertworks.metrics.classification import auc_statistic, class_figures, pair_rows
from bertworks.metrics.regression import correlation_statistic
from bertworks.metrics.scoring import score_answer, score_classify, score_tag


def setting(examples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(seed)
    gold = numbers.integers(0, 3, examples)
    return gold, np.where(numbers.random(examples) < 0.7, gold, numbers.integers(0, 3, examples))


def test_counts_are_the_drawing_of_rows() -> None:
    """The statistic of counts equals the metric of the repeated rows, for each kind of statistic."""
    numbers = np.random.default_rng(0)
    gold, predicted = setting(60)
    binary, scores = gold > 0, np.round(numbers.random(60), 1)
    (counts,) = intervals.drawn(np.ones(60, int), 1, 3)
    pick = np.repeat(np.arange(60), counts[0].astype(int))
    assert len(pick) == 60
    sums = intervals.of_sums(pair_rows(gold, predicted, 3), class_figures)(counts)
    assert sums["f1_macro"][0] == pytest.approx(f1_score(gold[pick], predicted[pick], average="macro"))
    area = auc_statistic(np.stack([1 - scores, scores], 1), binary.astype(int))(counts)["auc"][0]
    assert area == pytest.approx(roc_auc_score(binary[pick], scores[pick]))
    alike = correlation_statistic(gold, scores)(counts)
    assert alike["spearman"][0] == pytest.approx(stats.spearmanr(gold[pick], scores[pick])[0])
    assert alike["pearson"][0] == pytest.approx(stats.pearsonr(gold[pick], scores[pick])[0])


def test_kinds_and_examples_and_rows_give_one_interval() -> None:
    gold, predicted = setting(400)
    rows = pair_rows(gold, predicted, 3)
    kinds, counts = intervals.merged(rows)
    assert len(kinds) < 10
    few = intervals.bootstrap(intervals.of_sums(kinds, class_figures), counts, 0, 4000)
    all_ = intervals.bootstrap(intervals.of_sums(rows, class_figures), np.ones(400, int), 1, 4000)
    by_rows = intervals.of_any(lambda one, two: f1_score(one, two, average="macro"), gold, predicted)
    slow = intervals.bootstrap(by_rows, np.ones(400, int), 2, 400)
    for name in ("accuracy", "f1_macro", "matthews"):
        assert few[name] == pytest.approx(all_[name], abs=0.01)
    assert few["f1_macro"] == pytest.approx(slow["value"], abs=0.02)
    uneven = np.array([1, 5, 2, 0, 9])
    for draw in intervals.drawn(uneven, 50, 0):
        assert (draw.sum(1) == 17).all()
        assert (draw[:, 3] == 0).all()


def test_seeds() -> None:
    gold, predicted = setting(50)
    table = np.eye(3)[predicted]
    one, two, other = (score_classify(gold, table, ("a", "b", "c"), seed=seed).intervals for seed in (1, 1, 2))
    assert one == two != other


def test_intervals_cover_what_they_promise() -> None:
    """Of accuracies drawn from a known rate, about 95 % of the intervals hold it."""
    numbers = np.random.default_rng(0)
    held = 0
    for at in range(400):
        right = int(numbers.binomial(300, 0.8))
        statistic = intervals.of_sums([[1.0, 1.0], [0.0, 1.0]], lambda sums: {"rate": sums[:, 0] / sums[:, 1]})
        low, high = intervals.bootstrap(statistic, [right, 300 - right], at, 500)["rate"]
        held += low <= 0.8 <= high
    assert 0.91 <= held / 400 <= 0.98


def test_paired_is_narrower_than_apart_and_centred() -> None:
    gold, predicted = setting(500)
    better = np.where(np.arange(500) < 20, gold, predicted)
    rows = pair_rows(gold, predicted, 3), pair_rows(gold, better, 3)
    found = intervals.paired(rows, class_figures, level=0.9)
    difference, (low, high) = found["accuracy"]
    assert difference == pytest.approx(np.mean(better == gold) - np.mean(predicted == gold))
    assert 0 < low < difference < high < 0.05
    wider = intervals.paired(rows, class_figures, level=0.95)["accuracy"][1]
    assert wider[0] <= low
    assert wider[1] >= high
    same = intervals.paired((rows[0], rows[0]), class_figures)
    assert same["f1_macro"] == (0, (0, 0))
    with pytest.raises(InputError, match="one shape"):
        intervals.paired((rows[0], rows[0][:9]), class_figures)


@settings(deadline=None)
@given(some.integers(1, 400), some.floats(0.5, 0.9999))
def test_students_t(freedom: int, share: float) -> None:
    assert intervals.t_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=1e-9, abs=1e-9)


def test_over_seeds() -> None:
    values = [0.91, 0.93, 0.9]
    mean, span = intervals.over_seeds(values)
    wanted = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert mean == pytest.approx(np.mean(values))
    assert span == pytest.approx(wanted, abs=1e-9)
    assert np.isnan(intervals.over_seeds([0.5])[1]).all()
    with pytest.raises(InputError, match="at least one"):
        intervals.over_seeds([])


def test_ten_thousand_examples_take_under_a_second() -> None:
    """Generously: five seconds for all three, on a machine that others use too."""
    numbers = np.random.default_rng(0)
    gold, predicted = setting(10_000)
    tags = np.array(["O", "B-X", "I-X"])
    start = time.process_time()
    intervals.bootstrap(intervals.of_sums(*_kinds(gold, predicted)), intervals.merged(pair_rows(gold, predicted, 3))[1])
    score_tag(tags[gold].reshape(-1, 10).tolist(), tags[predicted].reshape(-1, 10).tolist())
    score_answer([["x y"]] * 10_000, ["x y" if one else "x" for one in numbers.integers(0, 2, 10_000)])
    assert time.process_time() - start < 5


def _kinds(gold: np.ndarray, predicted: np.ndarray) -> tuple:
    return intervals.merged(pair_rows(gold, predicted, 3))[0], class_figures
