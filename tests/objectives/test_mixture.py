"""Mixtures: exact shares, every store gone through example by example, the same however it is cut and whoever asks."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import InputError
from bertworks.objectives.batches import IGNORED, Examples, Place, feed
from bertworks.objectives.frequencies import token_counts, unigram_entropy
from bertworks.objectives.mixture import LARGEST, Mixture, owners_of, whole_numbers
from bertworks.objectives.published import PUBLISHED, Objective
from bertworks.text.store import Store

from ..stores import plain_tokenizer, random_documents, store_of
from .test_batches import equal

ALL = PUBLISHED | {"packed": Objective(layout="packed")}
weights = st.lists(st.integers(1, 40) | st.integers(1, LARGEST // 8), min_size=1, max_size=7)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Store]:
    folder = tmp_path_factory.mktemp("mixture")
    tokenizer = plain_tokenizer(folder / "t")
    return [
        store_of(folder / f"s{n}", tokenizer, random_documents(tokenizer, size, n), 5000)
        for n, size in enumerate((60, 20, 9))
    ]


def mixture_of(
    stores: list[Store], name: str = "roberta", shares: list[str] | None = None, length: int = 64
) -> Mixture:
    members = [Examples(one, ALL[name], length, seed=n, say=lambda _: None) for n, one in enumerate(stores)]
    return Mixture(members, None if shares is None else [Fraction(one) for one in shares])


# -- who has which row ---------------------------------------------------------------------------------------


@settings(deadline=None)
@given(weights, st.integers(0, 1 << 60), st.integers(1, 300))
def test_every_beginning_is_shared_exactly(shares: list[int], first: int, rows: int) -> None:
    total = sum(shares)
    owners, before = owners_of(first, rows, shares)
    counts = np.array(before, object)
    for number in range(rows + 1):
        exact = [Fraction((first + number) * share, total) for share in shares]
        assert sum(counts) == first + number
        assert all(abs(have - due) < len(shares) for have, due in zip(counts, exact, strict=True))
        if number < rows:
            counts[owners[number]] += 1


@settings(deadline=None)
@given(weights, st.integers(0, 1 << 60), st.integers(0, 200), st.integers(1, 100))
def test_it_is_the_same_wherever_one_begins(shares: list[int], first: int, skipped: int, rows: int) -> None:
    owners, before = owners_of(first, skipped + rows, shares)
    later, counted = owners_of(first + skipped, rows, shares)
    np.testing.assert_array_equal(owners[skipped:], later)
    found = Counter(owners[:skipped].tolist())
    assert counted == [have + found[number] for number, have in enumerate(before)]


@settings(deadline=None)
@given(weights.filter(lambda one: sum(one) < 5000))
def test_a_whole_round_has_the_weights_themselves(shares: list[int]) -> None:
    assert np.bincount(owners_of(0, sum(shares), shares)[0], minlength=len(shares)).tolist() == shares


@settings(deadline=None)
@given(st.lists(st.fractions(min_value=Fraction(1, 1000), max_value=10**12), min_size=1, max_size=5))
def test_weights_become_whole_numbers(given_weights: list[Fraction]) -> None:
    found = whole_numbers(given_weights)
    assert all(one >= 1 for one in found)
    assert sum(found) <= LARGEST
    total = sum(given_weights)
    for one, weight in zip(found, given_weights, strict=True):
        assert one / sum(found) == pytest.approx(float(weight / total), abs=1e-8)


def test_weights_are_above_zero() -> None:
    with pytest.raises(InputError, match="not above 0"):
        whole_numbers([Fraction(1), Fraction(0)])


# -- batches -------------------------------------------------------------------------------------------------


def test_an_epoch_without_weights_holds_every_example_once(stores: list[Store]) -> None:
    mixture = mixture_of(stores)
    tokens = sum(store.tokens for store in stores)
    for epoch in (0, 1):
        parts = [  # the rows themselves, before anything is masked in them
            part[0]
            for member, (start, stop) in _stretches(mixture, epoch * mixture.rows, mixture.rows)
            for part in member.parts(mixture._place(member, start), stop - start)
        ]
        assert sum(int(one.own.sum()) for one in parts) == tokens
        seen = Counter(row.tobytes() for one in parts for row in one.ids)
        once = [m.rows(0, np.arange(m.count(0))).ids for m in mixture.members]
        assert seen == Counter(row.tobytes() for rows in once for row in rows)


def _stretches(mixture: Mixture, first: int, rows: int) -> list[tuple[Examples, tuple[int, int]]]:
    before, after = (owners_of(at, 1, mixture.weights)[1] for at in (first, first + rows))
    return list(zip(mixture.members, zip(before, after, strict=True), strict=True))


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_each_stores_rows_are_its_own_line(stores: list[Store], name: str) -> None:
    """Read straight through for several epochs of the small store: its rows are those that it gives alone."""
    mixture = mixture_of(stores, name, ["0.2", "0.3", "0.5"])
    wanted = 3 * mixture.members[2].count(0) * 2
    owners, _ = owners_of(0, wanted, mixture.weights)
    whole = mixture.batch(Place(), wanted)
    for number, member in enumerate(mixture.members):
        mine = owners == number
        alone = member.batch(Place(), int(mine.sum()))
        np.testing.assert_array_equal(whole.ids[mine], alone.ids)
        np.testing.assert_array_equal(whole.sequences[mine], alone.sequences)
        if member.objective.holds_pairs:
            np.testing.assert_array_equal(whole.answers[mine], alone.answers)
        asked = whole.labels != IGNORED
        here = mine[whole.chosen[asked] // member.length]
        np.testing.assert_array_equal(whole.labels[asked][here], alone.labels[alone.labels != IGNORED])
    assert mixture._place(mixture.members[2], int((owners == 2).sum())).epoch >= 2


@pytest.mark.parametrize("name", ALL)
def test_however_it_is_cut_it_is_the_same_line(stores: list[Store], name: str) -> None:
    mixture = mixture_of(stores, name, ["1", "1", "2"])
    start = Place(1, mixture.rows - 9)  # crosses into the next epoch
    whole = mixture.batch(start, 24)
    for size in (1, 5, 24):
        parts, place, left = [], start, 24
        while left:
            parts.append(mixture_of(stores, name, ["1", "1", "2"]).batch(place, min(size, left)))
            place, left = mixture.after(place, min(size, left)), left - min(size, left)
        np.testing.assert_array_equal(np.concatenate([one.ids for one in parts]), whole.ids)
        answers = np.concatenate([one.answers[one.answers != IGNORED] for one in parts])
        np.testing.assert_array_equal(answers, whole.answers[whole.answers != IGNORED])
    for ranks in (2, 4):
        shares = [mixture.batch(start, 24, rank=rank, ranks=ranks) for rank in range(ranks)]
        np.testing.assert_array_equal(np.concatenate([one.ids for one in shares]), whole.ids)
        np.testing.assert_array_equal(
            np.concatenate([one.labels[one.labels != IGNORED] for one in shares]), whole.labels[whole.labels != IGNORED]
        )
    right = whole.ids.copy().ravel()
    asked = whole.labels != IGNORED
    right[whole.chosen[asked]] = whole.labels[asked]
    assert (whole.ids.ravel()[whole.firsts[whole.answers != IGNORED]] == stores[0].tokenizer.cls_id).all()
    with pytest.raises(InputError, match="cannot be shared"):
        mixture.batch(start, 5, ranks=2)


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(0, 10**7), step=st.integers(1, 500))
def test_a_place_says_how_far(stores: list[Store], rows: int, step: int) -> None:
    mixture = mixture_of(stores, "bert", ["5", "1", "1"])
    place = mixture.after(Place(), rows)
    assert place.epoch * mixture.rows + place.position == rows
    assert mixture.after(place, step) == mixture.after(Place(), rows + step)
    for member in mixture.members:
        own = mixture._place(member, rows)
        assert own.position < member.count(own.epoch)
        if rows < 5000:
            assert own == member.after(Place(), rows)


def test_two_integers_are_enough_to_go_on(stores: list[Store]) -> None:
    line = feed(mixture_of(stores), Place(), 16, workers=2)
    run = [next(line) for _ in range(20)]
    for step in (0, 18):
        again = next(feed(mixture_of(stores), run[step][1], 16, workers=0))
        assert equal(again[0], run[step + 1][0])
        assert again[1] == run[step + 1][1]


# -- frequencies ---------------------------------------------------------------------------------------------


def test_the_entropy_is_that_of_the_tokens(stores: list[Store], tmp_path: Path) -> None:
    from scipy.stats import entropy

    ids = np.concatenate([shard.ids for shard in stores[0].shards()])
    counts = np.bincount(ids, minlength=stores[0].vocab_size)
    np.testing.assert_array_equal(token_counts(stores[0]), counts)
    assert unigram_entropy([stores[0]]) == pytest.approx(entropy(counts))
    other = np.bincount(np.concatenate([shard.ids for shard in stores[1].shards()]), minlength=len(counts))
    both = 0.25 * counts / counts.sum() + 0.75 * other / other.sum()
    assert unigram_entropy(stores[:2], [0.25, 0.75]) == pytest.approx(entropy(both))
    some = token_counts(stores[0], 6000)
    assert len(stores[0].facts) > 2
    assert 3000 <= some.sum() <= 6000
    tokenizer = stores[0].tokenizer
    even = store_of(tmp_path / "even", tokenizer, [[[5, 6, 7, 8]], [[8, 7, 6, 5]]])
    assert unigram_entropy([even]) == pytest.approx(np.log(4))
