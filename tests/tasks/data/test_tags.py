"""Entities and tags against seqeval, which we did not write, and there and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, Entities

from bertworks.tasks.data.shapes import Entity
from bertworks.tasks.data.tags import (
    as_bio,
    bio_names,
    broken,
    entities,
    scheme_of,
    strict_entities,
    tags_of,
)

PEERS = {"bio": (IOB2, "BI"), "iob1": (IOB1, "BI"), "bioes": (IOBES, "BIES"), "bilou": (BILOU, "BILU")}


def sentences(letters: str) -> st.SearchStrategy[list[str]]:
    tag = st.one_of(
        st.just("O"), st.builds("{}-{}".format, st.sampled_from(letters), st.sampled_from(["PER", "LOC", "X-Y"]))
    )
    return st.lists(tag, max_size=12)


def as_tuples(found: list[Entity]) -> list[tuple[str, int, int]]:
    return [(one.label, one.start, one.end) for one in found]


@given(sentences("BIES"))
def test_lenient_entities_are_seqevals(tags: list[str]) -> None:
    assert as_tuples(entities(tags)) == [(label, first, last + 1) for label, first, last in get_entities(tags)]


@pytest.mark.parametrize("scheme", PEERS)
@given(data=st.data())
def test_strict_entities_are_seqevals(scheme: str, data: st.DataObject) -> None:
    peer, letters = PEERS[scheme]
    tags = data.draw(sentences(letters))
    wanted = [(one.tag, one.start, one.end) for one in Entities([tags], peer).entities[0]]
    assert as_tuples(strict_entities(tags, scheme)) == wanted


@st.composite
def spans(draw: st.DrawFn) -> tuple[list[Entity], int]:
    found, at = [], 0
    for gap, size, label in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.sampled_from(["A", "B-C", "O"])), max_size=6)
    ):
        found.append(Entity(at + gap, at + gap + size, label))
        at += gap + size
    return found, at + draw(st.integers(0, 2))


@pytest.mark.parametrize("scheme", ["bio", "iob1", "bioes", "bmes", "bilou"])
@given(made=spans())
def test_there_and_back(scheme: str, made: tuple[list[Entity], int]) -> None:
    found, length = made
    tags = tags_of(found, length, scheme)
    assert broken(tags, scheme) is None
    assert entities(tags) == found
    assert strict_entities(tags, scheme) == found
    assert as_bio(tags, scheme) == tags_of(found, length)


@pytest.mark.parametrize("scheme", PEERS)
@given(data=st.data())
def test_whole_sequences_read_alike_both_ways(scheme: str, data: st.DataObject) -> None:
    tags = data.draw(sentences(PEERS[scheme][1]))
    if broken(tags, scheme) is None:
        assert entities(tags) == strict_entities(tags, scheme)
        assert tags_of(entities(tags), len(tags), scheme) == tags


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["O", "B-A", "I-A", "B-A"], "bio"),
        (["B-A", "O"], "bio"),
        (["I-A", "O", "B-A", "I-A"], "bio"),  # one of the two begins rightly
        (["I-A", "B-A", "O"], "iob1"),
        (["O", "I-A", "I-A"], "iob1"),
        (["S-A", "B-A", "E-A"], "bioes"),
        (["B-A", "M-A", "E-A"], "bmes"),
        (["B", "M", "E", "S"], "bmes"),
        (["B_A", "I_A", "O"], "bio"),
        (["B", "I", "O"], "bio"),
        (["U-A", "B-A", "L-A"], "bilou"),
        (["NN", "VB", "O"], "plain"),
        (["b", "m", "s", "v"], "plain"),
        (["B", "N", "I"], "plain"),
        (["-LRB-", "NN"], "plain"),
        (["O", "O"], "plain"),
    ],
)
def test_schemes_are_recognised(tags: list[str], scheme: str) -> None:
    assert scheme_of([tags]) == scheme


@pytest.mark.parametrize(
    ("tags", "scheme", "at"),
    [
        (["O", "I-A"], "bio", 1),
        (["B-A", "I-B"], "bio", 1),
        (["B-A", "I-A"], "iob1", 0),
        (["I-A", "B-A"], "iob1", None),
        (["B-A", "O"], "bioes", 1),
        (["B-A"], "bioes", 0),
        (["B-A", "M-A"], "bmes", 1),
        (["S-A", "E-A"], "bioes", 1),
        (["B-A", "M-A", "E-A"], "bmes", None),
    ],
)
def test_where_a_sequence_breaks(tags: list[str], scheme: str, at: int | None) -> None:
    assert broken(tags, scheme) == at


def test_words_in_bmes_have_no_type() -> None:
    assert as_bio(["B", "M", "E", "S"], "bmes") == ["B", "I", "I", "B"]
    assert bio_names(["_"]) == ["O", "B", "I"]
    assert bio_names(["PER", "LOC"]) == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
