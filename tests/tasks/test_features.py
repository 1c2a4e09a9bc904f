"""Windows, encoded features, and the line of batches."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.errors import InputError
from bertworks.objectives.batches import Place
from bertworks.tasks.batches import FeatureLine, collated, to_predict
from bertworks.tasks.features import Features, encode, joined, windows
from bertworks.text.tokenizer import Tokenizer

from ..tiny import WORDS, tiny_tokenizer


@cache
def tokenizer(family: str = "bert") -> Tokenizer:
    return tiny_tokenizer(family)


WORD = st.sampled_from(WORDS)
TEXT = st.lists(WORD, max_size=30).map(" ".join)


@given(st.integers(0, 300), st.integers(1, 60), st.integers(0, 59))
def test_windows_cover_everything(size: int, room: int, overlap: int) -> None:
    if overlap >= room:
        with pytest.raises(InputError):
            windows(size, room, overlap)
        return
    found = windows(size, room, overlap)
    assert found[0][0] == 0
    assert found[-1][1] == size
    for (_, stop), (start, _) in pairwise(found):
        assert stop - start >= overlap
    assert all(stop - start == room for start, stop in found) or len(found) == 1
    starts = [start for start, _ in found]
    assert starts == sorted(set(starts))


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
@settings(max_examples=40, deadline=None)
@given(items=st.lists(st.one_of(TEXT, st.tuples(TEXT, TEXT)), min_size=1, max_size=8), length=st.integers(8, 40))
def test_encoding_is_the_tokenizers(family: str, items: list[str | tuple[str, str]], length: int) -> None:
    items = [item for item in items if isinstance(item, type(items[0]))]
    found = encode(tokenizer(family), items, length, aligned=True)
    wanted = tokenizer(family).encode_batch(items, max_length=length)
    assert found.cut == sum(one.cut > 0 for one in wanted)
    for at, one in enumerate(wanted):
        place = found.tokens_of(at)
        assert found.ids[place].tolist() == one.ids
        assert (found.segments[place].tolist() if found.segments is not None else [0] * len(one.ids)) == one.segments
        assert [tuple(pair) for pair in found.offsets[place].tolist()] == one.offsets
        assert [None if word < 0 else word for word in found.words[place].tolist()] == one.words
    fast = encode(tokenizer(family), items, length)
    assert np.array_equal(fast.ids, found.ids)


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
@settings(max_examples=40, deadline=None)
@given(first=TEXT, second=st.lists(WORD, min_size=1, max_size=80).map(" ".join), overlap=st.integers(0, 6))
def test_windows_of_a_pair_hold_all_of_it(family: str, first: str, second: str, overlap: int) -> None:
    length = 24
    whole = tokenizer(family).encode(first, second)
    found = encode(tokenizer(family), [(first, second)], length, overlap=overlap, aligned=True)
    assert (found.lengths <= length).all()
    assert (found.rows == 0).all()
    assert (found.units == 0).all()
    seen: set[tuple[int, int]] = set()
    for at in range(len(found)):
        place = found.tokens_of(at)
        texts, offsets = found.texts[place], found.offsets[place]
        ends = [tuple(one) for one in offsets[texts == 1].tolist()]
        seen |= set(ends)
        assert found.ids[place][0] == whole.ids[0]
        assert found.ids[place][-1] == whole.ids[-1]
        if len(found) > 1:
            specials = len(tokenizer(family).encode("", "").ids)
            assert (texts == 0).sum() <= (length - specials) // 2
    assert seen == {
        pair for pair, segment in zip(whole.offsets, _texts(family, first, second), strict=True) if segment == 1
    }


def _texts(family: str, first: str, second: str) -> list[int]:
    library = tokenizer(family).library
    return [-1 if one is None else one for one in library.encode(first, second).sequence_ids]


def test_words_count_what_was_given() -> None:
    found = encode(tokenizer(), [["the", "zebra", "sat"]], 20, aligned=True)
    assert found.words.tolist()[1:-1] == [0, *[1] * 5, 2]
    assert found.words[0] == found.words[-1] == -1


def test_columns_side_by_side() -> None:
    one, two = encode(tokenizer(), ["the cat", "a dog"], 20), encode(tokenizer(), ["mat", "park is"], 20)
    both = joined([one, two])
    assert both.rows.tolist() == both.units.tolist() == [0, 0, 1, 1]
    decoded = [tokenizer().decode(both.ids[both.tokens_of(at)]) for at in range(4)]
    assert decoded == ["the cat", "mat", "a dog", "park is"]


def made(lengths: list[int], units: list[int]) -> Features:
    """Features whose tokens are their own number."""
    ids = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    own = np.array(units, np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Features(ids, None, starts, own.copy(), own).teaching(per_unit={"unit": np.arange(own[-1] + 1)})


SIZES = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=3), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(SIZES, st.integers(1, 9), st.integers(0, 5), st.data())
def test_the_line_is_a_function_of_its_place(sizes: list[list[int]], rows: int, seed: int, data: st.DataObject) -> None:
    units = [unit for unit, some in enumerate(sizes) for _ in some]
    features = made([size for some in sizes for size in some], units)
    line = FeatureLine(features, rows, seed)
    count = line.count(0)
    assert count == len(sizes)
    for epoch in range(3):
        assert sorted(line.order(epoch).tolist()) == list(range(count))
    start = data.draw(st.integers(0, 2 * count))
    some = data.draw(st.integers(1, 2 * count))
    place = line.after(Place(), start)
    whole = line.batch(place, some)
    cut = data.draw(st.integers(0, some))
    parts = [line.batch(line.after(place, before), size) for before, size in ((0, cut), (cut, some - cut)) if size]
    assert np.array_equal(whole.per_unit["unit"], np.concatenate([one.per_unit["unit"] for one in parts]))
    assert np.array_equal(whole.features, np.concatenate([one.features for one in parts]))
    again = FeatureLine(features, rows, seed).batch(place, some)
    assert np.array_equal(whole.ids, again.ids)
    assert whole.unit_count == some
    # every unit is whole, and every feature what it is
    assert np.array_equal(np.bincount(whole.units), [len(sizes[unit]) for unit in whole.per_unit["unit"]])
    for row, feature in enumerate(whole.features):
        assert set(whole.ids[row][whole.real[row]].tolist()) == {feature}
    if some % 2 == 0:
        shares = [line.batch(place, some, rank=rank, ranks=2).per_unit["unit"] for rank in (0, 1)]
        assert np.array_equal(np.concatenate(shares), whole.per_unit["unit"])


def test_batches_are_of_like_length() -> None:
    random = np.random.default_rng(0)
    lengths = random.integers(4, 120, 5000).tolist()
    features = made(lengths, list(range(5000)))
    line = FeatureLine(features, 32, 0)
    place, real, padded, longest = Place(0, 0), 0, 0, []
    for _ in range(5000 // 32):
        batch = line.batch(place, 32)
        real, padded = real + batch.tokens, padded + batch.ids.size
        longest.append(batch.ids.shape[1])
        place = line.after(place, 32)
    assert padded / real < 1.12
    # Long and short ones come mixed: neighbours are not alike.
    assert abs(np.corrcoef(longest[:-1], longest[1:])[0, 1]) < 0.3
    assert not np.array_equal(line.order(0), line.order(1))


def test_global_batches_stay_whole_over_epochs() -> None:
    """An epoch that ends inside a batch leaves the next one's batches as even as its own."""
    random = np.random.default_rng(1)
    features = made(random.integers(4, 120, 1003).tolist(), list(range(1003)))
    line = FeatureLine(features, 16, 3)
    place, worst = Place(), []
    for _ in range(3 * 1003 // 16):
        batch = line.batch(place, 16)
        worst.append(batch.lengths.max() - batch.lengths.min())
        place = line.after(place, 16)
    assert np.median(worst) < 20
    assert sum(one > 40 for one in worst) <= 8


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(1, 200))
def test_predicting_meets_every_feature_once(lengths: list[int], budget: int) -> None:
    features = made(lengths, list(range(len(lengths))))
    seen = []
    for batch in to_predict(features, budget, most=16):
        seen += batch.features.tolist()
        assert batch.ids.size <= budget or len(batch.ids) == 1
        assert len(batch.ids) <= 16
    assert sorted(seen) == list(range(len(lengths)))


def test_targets_travel_in_batches() -> None:
    features = made([2, 3, 1], [0, 0, 1]).teaching(per_token={"tag": np.arange(6)}, per_feature={"start": [7, 8, 9]})
    batch = collated(features, np.array([2, 0, 1]))
    assert batch.units.tolist() == [0, 1, 1]
    assert batch.per_unit["unit"].tolist() == [1, 0]
    assert batch.per_feature["start"].tolist() == [9, 7, 8]
    assert batch.per_token["tag"][:, :4].tolist() == [[5, -100, -100, -100], [0, 1, -100, -100], [2, 3, 4, -100]]
    with pytest.raises(ValueError, match="2 targets for 3"):
        features.teaching(per_feature={"start": [1, 2]})
