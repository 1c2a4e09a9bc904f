"""What is chosen and what becomes of it, against plain loops and against what the papers say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import ConfigError
from bertworks.objectives.corrupt import Corruption
from bertworks.objectives.draws import key
from bertworks.objectives.published import PUBLISHED, Objective, published
from bertworks.objectives.rows import Rows
from bertworks.objectives.select import choose, most_chosen

from ..stores import plain_tokenizer
from . import oracles

LENGTH = 48
SELECTS = {
    "tokens": Objective(layout="segment-pairs"),
    "words": Objective(layout="segment-pairs", select="words"),
    "ngrams": Objective(layout="segment-pairs", select="ngrams"),
    "macbert": Objective(layout="segment-pairs", select="ngrams", ngrams=(0.4, 0.3, 0.2, 0.1)),
    "spans": Objective(layout="segment-pairs", select="spans"),
    "words, running text": Objective(select="words"),
    "many": Objective(layout="segment-pairs", select="ngrams", rate=0.6),
}
# A row: for each position a special token, the beginning of a word, or its continuation; then padding.
patterns = st.lists(st.sampled_from("SBBBCC"), min_size=1, max_size=LENGTH)


def rows_of(given_patterns: list[list[str]]) -> Rows:
    count = len(given_patterns)
    own, begins = np.zeros((count, LENGTH), bool), np.ones((count, LENGTH), bool)
    sequences = np.zeros((count, LENGTH), np.uint16)
    for at, pattern in enumerate(given_patterns):
        sequences[at, : len(pattern)] = 1
        for place, sign in enumerate(pattern):
            own[at, place] = sign != "S"
            begins[at, place] = sign != "C" or place == 0 or pattern[place - 1] == "S"
    ids = np.where(own, 10 + np.arange(LENGTH), 2).astype(np.int32)
    zeros = np.zeros((count, LENGTH), np.uint8)
    return Rows(ids, zeros, sequences, begins, own, np.zeros(0, np.int64), np.zeros(0, np.uint8))


@pytest.mark.parametrize("name", SELECTS)
@settings(max_examples=120, deadline=None)
@given(given_patterns=st.lists(patterns, min_size=1, max_size=5), seed=st.integers(0, 10_000))
def test_choosing_equals_the_plain_loops(name: str, given_patterns: list[list[str]], seed: int) -> None:
    objective, rows = SELECTS[name], rows_of(given_patterns)
    keys = key(1, seed, np.arange(len(given_patterns)))
    got = choose(objective, rows, keys)
    assert not (got & ~rows.own).any()
    for at in range(len(given_patterns)):
        own, begins = rows.own[at].tolist(), rows.begins[at].tolist()
        pairs = objective.holds_pairs
        most = most_chosen(objective, LENGTH)
        wanted = oracles.quota(len(given_patterns[at]), sum(own), pairs, objective.rate, keys[at], most)
        if objective.select == "tokens":
            assert got[at].sum() == min(wanted, sum(own))
        else:
            assert np.flatnonzero(got[at]).tolist() == oracles.chosen(
                begins, own, wanted, keys[at], objective.span_weights
            )
        words = np.cumsum(rows.begins[at])
        if objective.select != "tokens":  # a word is chosen whole or not at all
            for word in np.unique(words[got[at]]):
                assert got[at][(words == word)].all()


def test_a_row_depends_on_its_own_key_alone() -> None:
    rows = rows_of([list("SBCBBCBCBBBBCCBS")] * 6)
    keys = key(1, 2, np.arange(6))
    for objective in SELECTS.values():
        got = choose(objective, rows, keys)
        back = choose(objective, rows, keys[::-1])[::-1]
        np.testing.assert_array_equal(got, back)
    assert len({tuple(row) for row in choose(SELECTS["tokens"], rows, keys).tolist()}) > 1


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return plain_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def test_eighty_ten_ten(tokenizer) -> None:  # type: ignore[no-untyped-def]
    rows = rows_of([["S", *"B" * 46, "S"]] * 20_000)
    keys = key(1, 0, np.arange(20_000))
    chosen = rows.own.copy()
    ids = Corruption("bert", tokenizer)(rows, chosen, keys)
    total = chosen.sum()
    masked = (ids == tokenizer.mask_id) & chosen
    kept = (ids == rows.ids) & chosen
    assert abs(masked.sum() / total - 0.8) < 0.005
    ordinary = tokenizer.vocab_size - len(tokenizer.special_ids)
    assert abs(kept.sum() / total - (0.1 + 0.1 / ordinary)) < 0.005
    drawn = ids[chosen & ~masked & ~kept]
    assert not np.isin(drawn, list(tokenizer.special_ids)).any()
    assert set(drawn.tolist()) == set(range(tokenizer.vocab_size)) - tokenizer.special_ids  # the whole vocabulary
    counts = np.bincount(drawn, minlength=tokenizer.vocab_size)[5:]
    assert np.abs(counts / counts.mean() - 1).max() < 0.3
    np.testing.assert_array_equal(ids[~chosen], rows.ids[~chosen])


def test_all_masked(tokenizer) -> None:  # type: ignore[no-untyped-def]
    rows = rows_of([["S", *"BBCB", "S"]] * 3)
    chosen = rows.own.copy()
    chosen[:, 2] = False
    ids = Corruption("mask", tokenizer)(rows, chosen, key(1, np.arange(3)))
    assert (ids[chosen] == tokenizer.mask_id).all()
    np.testing.assert_array_equal(ids[~chosen], rows.ids[~chosen])


def test_published_rows_are_what_the_papers_say() -> None:
    assert PUBLISHED["bert"] == Objective(
        layout="segment-pairs", pair="next-sentence", select="tokens", masking="static", short=0.1, copies=10
    )
    assert PUBLISHED["bert-wwm"] == replace(PUBLISHED["bert"], select="words")
    roberta = PUBLISHED["roberta"]
    assert (roberta.layout, roberta.pair, roberta.masking) == ("full-sentences", "none", "dynamic")
    albert = PUBLISHED["albert"]
    assert albert.pair == "sentence-order"
    np.testing.assert_allclose(albert.span_weights, np.array([6, 3, 2]) / 11)
    np.testing.assert_allclose(PUBLISHED["macbert"].span_weights, (0.4, 0.3, 0.2, 0.1))
    assert PUBLISHED["macbert"].corrupt == "similar"
    assert all(one.rate == 0.15 for one in PUBLISHED.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layout": "segment-pair"}, "did you mean 'segment-pairs'"),
        ({"pair": "next-sentence", "layout": "full-sentences"}, "hold no pairs"),
        ({"select": "word"}, "did you mean 'words'"),
        ({"rate": 15}, "share between 0 and 1"),
        ({"short": 2}, "share from 0 to 1"),
        ({"copies": 0}, "at least 1"),
        ({"ngrams": (0.0,)}, "how likely"),
        ({"corrupt": "bart"}, "did you mean 'bert'"),
        ({"corrupt": "similar"}, "replaces whole words"),
        ({"masking": "dynamical"}, "did you mean 'dynamic'"),
    ],
)
def test_what_does_not_add_up_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Objective(**change)  # type: ignore[arg-type]


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'roberta'"):
        published("robert")
