"""Retrieval against scikit-learn's nDCG and the definitions written out; choices; pairs of vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from scipy import stats
from sklearn.metrics import label_ranking_average_precision_score, ndcg_score

from bertworks.errors import InputError
from bertworks.metrics import retrieval
from bertworks.metrics.scoring import score_choose, score_embed, score_retrieve


@settings(deadline=None)
@given(some.integers(0, 10**6), some.integers(2, 30), some.integers(1, 3))
def test_figures(seed: int, documents: int, wanted: int) -> None:
    numbers = np.random.default_rng(seed)
    asked, offered = numbers.normal(size=(5, 8)), numbers.normal(size=(documents, 8))
    relevant = [numbers.choice(documents, min(wanted, documents), replace=False).tolist() for _ in range(5)]
    ours = score_retrieve(asked, offered, relevant, resamples=5).metrics
    alike = retrieval.unit(asked) @ retrieval.unit(offered).T
    truth = np.zeros((5, documents), int)
    for at, row in enumerate(relevant):
        truth[at, row] = 1
    assert ours["ndcg@10"] == pytest.approx(ndcg_score(truth, alike, k=10), abs=1e-9)
    order = np.argsort(-alike, 1)
    firsts = [next(rank for rank, one in enumerate(order[at], 1) if one in relevant[at]) for at in range(5)]
    assert ours["mrr"] == pytest.approx(np.mean([1 / one for one in firsts]))
    if wanted == 1:
        assert ours["mrr"] == pytest.approx(label_ranking_average_precision_score(truth, alike))
    found = [len(set(order[at, :5]) & set(relevant[at])) / len(relevant[at]) for at in range(5)]
    assert ours["recall@5"] == pytest.approx(np.mean(found))


def test_one_point_for_everything_finds_nothing() -> None:
    same = np.ones((50, 4))
    assert score_retrieve(same, same).metrics["recall@10"] == 0


@pytest.mark.parametrize("wanted", [1, 3])
def test_chance_is_a_random_order(wanted: int) -> None:
    numbers = np.random.default_rng(0)
    relevant = [list(range(wanted))] * 4000
    ours = retrieval.retrieval_chance(20, relevant)
    rows = [retrieval._row(retrieval.found_at(numbers.random(20), relevant[0])) for _ in range(4000)]
    drawn = retrieval.retrieval_figures(np.sum(rows, 0)[None])
    for name, value in ours.items():
        assert value == pytest.approx(drawn[name][0], abs=0.02), name


def test_pairs_of_vectors() -> None:
    numbers = np.random.default_rng(0)
    left, right, gold = numbers.normal(size=(40, 6)), numbers.normal(size=(40, 6)), numbers.integers(0, 6, 40)
    cosines = [one @ two / np.linalg.norm(one) / np.linalg.norm(two) for one, two in zip(left, right, strict=True)]
    scores = score_embed(gold, left, right)
    assert scores.metrics["spearman"] == pytest.approx(stats.spearmanr(gold, cosines)[0], abs=1e-9)
    assert "mse" not in scores.metrics
    assert retrieval.cosines(np.zeros((1, 3)), np.ones((1, 3)))[0] == 0


def test_choices_of_unequal_number() -> None:
    scores = score_choose([0, 2, 1], [[0.9, 0.1], [0.1, 0.2, 0.7, 0.0], [0.6, 0.4]])
    assert scores.metrics["accuracy"] == pytest.approx(2 / 3)
    assert scores.baselines["chance"]["accuracy"] == pytest.approx((0.5 + 0.25 + 0.5) / 3)


def test_errors() -> None:
    with pytest.raises(InputError, match="query 2 has no relevant"):
        score_retrieve(np.ones((2, 2)), np.ones((3, 2)), [[0], []])
    with pytest.raises(InputError, match="choice 2 of question 1"):
        score_choose([2], [[0.5, 0.5]])
