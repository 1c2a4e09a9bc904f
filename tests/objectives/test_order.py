"""The order of examples, and the draws it is made of."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.objectives import draws
from bertworks.objectives.order import Permutation


@given(count=st.integers(1, 3000), seed=st.integers(0, 2**40), epoch=st.integers(0, 1000))
def test_every_example_once(count: int, seed: int, epoch: int) -> None:
    order = Permutation(count, seed, epoch)(np.arange(count))
    assert sorted(order.tolist()) == list(range(count))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [Permutation(5000, seed, epoch)(np.arange(5000)) for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    for at, one in enumerate(orders):
        for other in orders[at + 1 :]:
            assert np.mean(one == other) < 0.01
        # Neighbours are not neighbours any more, and early ones are not kept early.
        assert np.mean(np.abs(np.diff(one)) == 1) < 0.01
        assert abs(np.corrcoef(np.arange(5000), one)[0, 1]) < 0.05


@pytest.mark.parametrize("count", [1000, 1 << 14, (1 << 14) + 1])
def test_each_example_comes_at_every_time_alike(count: int) -> None:
    """Over many epochs an example's mean position is the middle."""
    places = np.stack([np.argsort(Permutation(count, 7, epoch)(np.arange(count)))[:50] for epoch in range(200)])
    spread = count / np.sqrt(12 * 200)
    assert np.abs(places.mean(0) - count / 2).max() < 5 * spread


def test_a_billion_examples_cost_no_more_than_a_thousand() -> None:
    """A step of a run resumed in the middle of a billion examples."""
    started = time.perf_counter()
    order = Permutation(10**9, 3, 2)
    got = order(np.arange(876_543_210, 876_543_210 + 256))
    assert time.perf_counter() - started < 0.05
    assert len(set(got.tolist())) == 256
    assert got.max() < 10**9


def test_draws_are_even_and_keyed() -> None:
    keys = draws.key(draws.FATE, 1, np.arange(1000))
    assert len(set(keys.tolist())) == 1000
    drawn = draws.uniform(keys[:, None], np.arange(1000))
    assert abs(drawn.mean() - 0.5) < 0.001
    assert abs(drawn.var() - 1 / 12) < 0.001
    assert np.abs(np.corrcoef(drawn[:, :20].T) - np.eye(20)).max() < 0.15
    assert np.abs(np.histogram(drawn, 100, (0, 1))[0] / 10_000 - 1).max() < 0.06
    whole = draws.below(7, keys[:, None], np.arange(1000))
    assert whole.min() == 0
    assert whole.max() == 6
    assert np.abs(np.bincount(whole.ravel()) / (1e6 / 7) - 1).max() < 0.02


@given(st.integers(0, 2**63 - 1), st.integers(1, 2**40))
def test_below_stays_below(number: int, limit: int) -> None:
    assert 0 <= int(draws.below(limit, draws.key(1, number))) < limit
