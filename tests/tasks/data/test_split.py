"""Splits and folds: whole, drawn by the seed, whatever the order, every label in its share, nothing leaking."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertworks.errors import BertworksError
from bertworks.tasks.data.shapes import Asked, Row, Tagged, Text
from bertworks.tasks.data.split import folds, split


def texts(labels: list[str], repeat: int = 1) -> list[Row]:
    return [Text(file="f", line=at, text=f"text {at // repeat}", labels=(label,)) for at, label in enumerate(labels, 1)]


def label_of(row: Row) -> str | None:
    assert isinstance(row, Text)
    return row.label


@given(
    st.lists(st.sampled_from("aaabc"), min_size=20, max_size=200),
    st.floats(0.1, 0.5),
    st.integers(0, 2**40),
)
def test_a_split_is_whole_stratified_and_of_the_right_size(labels: list[str], share: float, seed: int) -> None:
    rows = texts(labels)
    kept, held = split(rows, share, seed)
    assert sorted(kept + held) == list(range(len(rows)))
    assert kept == sorted(kept)
    assert abs(len(held) - share * len(rows)) <= 1 + len(set(labels))
    for label, count in Counter(labels).items():
        there = sum(label_of(rows[at]) == label for at in held)
        assert abs(there - share * count) <= 1
        assert there < count  # train has every label


@given(st.lists(st.sampled_from("ab"), min_size=20, max_size=80), st.integers(0, 99), st.randoms())
def test_order_does_not_matter(labels: list[str], seed: int, shuffle: random.Random) -> None:
    rows = texts(labels, repeat=2)
    mixed = list(rows)
    shuffle.shuffle(mixed)
    assert {rows[at].line for at in split(rows, 0.3, seed)[1]} == {mixed[at].line for at in split(mixed, 0.3, seed)[1]}


def test_the_seed_does() -> None:
    rows = texts(["a", "b"] * 50)
    assert split(rows, 0.2, 0) == split(rows, 0.2, 0) != split(rows, 0.2, 1)


@given(st.lists(st.sampled_from("ab"), min_size=30, max_size=90), st.integers(0, 99))
def test_the_same_text_is_never_on_both_sides(labels: list[str], seed: int) -> None:
    rows: list[Row] = [
        Text(file="f", line=at, text=f"  Text {at % 10} " if at % 2 else f"text  {at % 10}", labels=(label,))
        for at, label in enumerate(labels)
    ]
    kept, held = split(rows, 0.3, seed)
    assert not {at % 10 for at in kept} & {at % 10 for at in held}
    assert abs(len(held) - 0.3 * len(rows)) <= 10
    parts = folds(rows, 3, seed)
    assert sum(len({at % 10 for at in part}) for part in parts) == 10


def test_questions_about_one_text_stay_together() -> None:
    rows: list[Row] = [
        Asked(file="f", line=at, id=str(at), question=f"q{at}", context=f"c{at // 5}", answers=()) for at in range(100)
    ]
    kept, held = split(rows, 0.2, 3)
    assert not {at // 5 for at in kept} & {at // 5 for at in held}
    assert len(held) == 20


def test_sentences_are_split_by_their_rarest_entity() -> None:
    rows: list[Row] = [
        Tagged(file="f", line=at, tokens=("a", f"w{at}"), tags=("B-RARE" if at % 10 == 0 else "O", "B-LOC"))
        for at in range(200)
    ]
    _, held = split(rows, 0.25, 0)
    assert sum(at % 10 == 0 for at in held) == 5


def test_scores_are_balanced() -> None:
    rows: list[Row] = [Text(file="f", line=at, text=str(at), score=float(at)) for at in range(100)]
    _, held = split(rows, 0.2, 0)
    assert [sum(10 * low <= at < 10 * low + 10 for at in held) for low in range(10)] == [2] * 10


@given(st.lists(st.sampled_from("aaab"), min_size=10, max_size=120), st.integers(2, 10), st.integers(0, 99))
def test_folds_are_even(labels: list[str], count: int, seed: int) -> None:
    rows = texts(labels)
    parts = folds(rows, count, seed)
    assert sorted(at for part in parts for at in part) == list(range(len(rows)))
    for label in set(labels):
        sizes = [sum(label_of(rows[at]) == label for at in part) for part in parts]
        assert max(sizes) - min(sizes) <= 1
    assert max(map(len, parts)) - min(map(len, parts)) <= 2


def test_a_label_of_one_row_is_trained_on() -> None:
    for seed in range(20):
        kept, _ = split(texts(["a"] * 9 + ["once"]), 0.5, seed)
        assert 9 in kept


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2.0])
def test_a_share_that_is_none(share: float) -> None:
    with pytest.raises(BertworksError, match="between 0 and 1"):
        split(texts(["a"] * 9), share, 0)


def test_too_few_rows() -> None:
    with pytest.raises(BertworksError, match="too few"):
        split(texts(["a"]), 0.5, 0)
    with pytest.raises(BertworksError, match="cannot make 5 folds"):
        folds(texts(["a", "b"]), 5, 0)
