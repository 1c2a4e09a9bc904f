"""Layouts against the published procedures written as plain loops, over random stores in several shards."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.objectives.frame import Frame
from bertworks.objectives.index import layout_rows
from bertworks.objectives.packing import combinations, packed
from bertworks.objectives.pieces import ANSWER, NO_ANSWER, Pieces
from bertworks.objectives.published import PUBLISHED, Objective
from bertworks.objectives.rows import assemble
from bertworks.text.store import Store

from ..stores import Documents, plain_tokenizer, random_documents, store_of
from . import oracles

sizes = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), min_size=1, max_size=12)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return plain_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def numbered(shape: list[list[int]]) -> Documents:
    """Documents of these sentence lengths, whose tokens run on, so that any stretch is known by its first."""
    at, found = 0, []
    for document in shape:
        found.append([])
        for size in document:
            found[-1].append([5 + (at + n) % 200 for n in range(size)])
            at += size
    return found


def tokens_of(store: Store, pieces: Pieces) -> list[list[list[int]]]:
    """Rows as lists of pieces as lists of tokens."""
    rows = []
    for first, last in zip(pieces.rows[:-1], pieces.rows[1:], strict=True):
        row = []
        for at in range(first, last):
            start, length = int(pieces.start[at]), int(pieces.length[at])
            row.append(store.take(np.arange(start, start + length))[0].tolist())
        rows.append(row)
    return rows


def whole(chunks: object) -> Pieces:
    """All shards' rows as one."""
    parts = list(chunks)  # type: ignore[call-overload]
    rows, base = [np.zeros(1, np.int64)], 0
    for one in parts:
        rows.append(one.rows[1:] + base)
        base += len(one.start)
    return Pieces(
        np.concatenate(rows),
        *(np.concatenate([getattr(one, name) for one in parts]) for name in ("start", "length", "mark")),
    )


@settings(max_examples=60, deadline=None)
@given(shape=sizes, length=st.integers(5, 40), shard=st.integers(1, 200))
def test_running_text_equals_the_plain_loops(tokenizer, shape, length, shard) -> None:  # type: ignore[no-untyped-def]
    documents = numbered(shape)
    with TemporaryDirectory() as name:
        store = store_of(Path(name) / "s", tokenizer, documents, shard)
        frame = Frame.of(tokenizer)
        got = whole(layout_rows(store, frame, Objective(), length, seed=0, copy=0))
        assert tokens_of(store, got) == oracles.full_sentences(documents, length)
        assert (got.row_sizes <= length).all()
        got = whole(layout_rows(store, frame, Objective(layout="documents"), length, seed=0, copy=0))
        assert tokens_of(store, got) == [[row] for row in oracles.stretches(documents, length)]
        assert (got.row_sizes <= length).all()


@settings(max_examples=80, deadline=None)
@given(
    shape=sizes,
    length=st.integers(6, 60),
    shard=st.integers(1, 200),
    pair=st.sampled_from(["none", "next-sentence", "sentence-order"]),
    short=st.sampled_from([0.0, 0.1, 0.7]),
    seed=st.integers(0, 5),
    copy=st.integers(0, 3),
)
def test_segment_pairs_equal_googles_procedure(tokenizer, shape, length, shard, pair, short, seed, copy) -> None:  # type: ignore[no-untyped-def]
    documents = numbered(shape)
    objective = Objective(layout="segment-pairs", pair=pair, short=short)
    with TemporaryDirectory() as name:
        store = store_of(Path(name) / "s", tokenizer, documents, shard)
        frame = Frame.of(tokenizer)
        got = whole(layout_rows(store, frame, objective, length, seed=seed, copy=copy))
        wanted = oracles.segment_pairs(documents, frame.room(length, pairs=True), pair, short, seed, copy)
        rows = tokens_of(store, got)
        answers = (got.mark[got.rows[:-1]] >> ANSWER) & 3
        ours = sorted((row, int(answer)) for row, answer in zip(rows, answers, strict=True))
        theirs = sorted(
            ([one for one in (first, second) if one], NO_ANSWER if answer is None else answer)
            for _, first, second, answer in wanted
        )
        assert ours == theirs
        assert (got.row_sizes <= length).all()


@settings(max_examples=150, deadline=None)
@given(lengths=st.lists(st.integers(1, 32), min_size=1, max_size=200), seed=st.integers(0, 3))
def test_packing_loses_and_doubles_nothing(lengths: list[int], seed: int) -> None:
    histogram = np.bincount(lengths, minlength=33)
    made = combinations(histogram, 32)
    again = np.bincount([size for one, rows in made for size in one * rows], minlength=33)
    np.testing.assert_array_equal(histogram, again)
    assert all(sum(one) <= 32 and rows > 0 for one, rows in made)
    count = len(lengths)
    base = Pieces(
        np.arange(count + 1),
        np.arange(count, dtype=np.int64),
        np.array(lengths, np.uint16),
        np.zeros(count, np.uint8),
    )
    got = packed(base, 32, seed)
    assert sorted(got.start.tolist()) == list(range(count))
    assert (got.row_sizes <= 32).all()


def test_packing_leaves_little_room() -> None:
    draw = np.random.default_rng(0)
    lengths = np.clip(draw.geometric(1 / 40, 20_000), 3, 128)
    rows = sum(rows for _, rows in combinations(np.bincount(lengths, minlength=129), 128))
    assert lengths.sum() / (rows * 128) > 0.99


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("name", [*PUBLISHED, "packed", "packed-pairs", "documents"])
def test_rows_stand_in_their_frame(tmp_path: Path, family: str, name: str) -> None:
    """Row by row, token by token, against a row built as the papers draw it."""
    extra = {
        "packed": Objective(layout="packed"),
        "packed-pairs": Objective(layout="packed", pair="next-sentence"),
        "documents": Objective(layout="documents"),
    }
    objective = (PUBLISHED | extra)[name]
    tokenizer = plain_tokenizer(tmp_path / "t", family)
    store = store_of(tmp_path / "s", tokenizer, random_documents(tokenizer, 30, 3), 500)
    frame, length = Frame.of(tokenizer), 64
    pieces = whole(layout_rows(store, frame, objective, length, seed=1, copy=0))
    rows = assemble(store, frame, pieces, np.arange(len(pieces.rows) - 1), length)
    for number, row in enumerate(tokens_of(store, pieces)):
        ids: list[int] = []
        segments: list[int] = []
        sequences: list[int] = []
        own: list[bool] = []
        sequence, first = 0, int(pieces.rows[number])
        for at, piece in enumerate(row):
            mark = int(pieces.mark[first + at])
            opens, seps, second = mark & 1, (mark >> 1) & 3, (mark >> 3) & 1
            sequence += opens
            made = [tokenizer.cls_id] * opens + piece + [tokenizer.sep_id] * seps
            ids += made
            segments += [second] * len(made)
            sequences += [sequence] * len(made)
            own += [False] * opens + [True] * len(piece) + [False] * seps
        rest = length - len(ids)
        assert rows.ids[number].tolist() == ids + [tokenizer.pad_id] * rest
        assert rows.segments[number].tolist() == segments + [0] * rest
        assert rows.sequences[number].tolist() == sequences + [0] * rest
        assert rows.own[number].tolist() == own + [False] * rest
        assert rows.begins[number][~np.array(own + [False] * rest)].all()
    assert (rows.ids.ravel()[rows.firsts] == tokenizer.cls_id).all()
    assert len(rows.firsts) == len(rows.answers) == int((rows.ids == tokenizer.cls_id).sum())
    if family == "roberta" and objective.holds_pairs:  # <s> A </s></s> B </s>, one segment number
        assert not rows.segments.any()
        assert ((rows.ids[:, :-1] == tokenizer.sep_id) & (rows.ids[:, 1:] == tokenizer.sep_id)).any()
