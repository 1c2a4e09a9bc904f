"""Entities and their figures against seqeval's, lenient and strict."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from seqeval.metrics import classification_report, f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2, IOBES, Tokens

from bertworks.errors import ConfigError, InputError
from bertworks.metrics.entities import entities, names_entities
from bertworks.metrics.scoring import score_tag

IOB = ("O", "B-X", "I-X", "B-Y", "I-Y", "B-Y-Z", "I-Y-Z")
BIOES = (*IOB, "E-X", "S-X", "E-Y", "S-Y")
BARE = ("O", "B", "I", "E", "S")
SCHEMES = {"lenient": (None, BIOES), "iob2": (IOB2, IOB), "iobes": (IOBES, BIOES)}


def tagged(tags: tuple[str, ...]) -> some.SearchStrategy[list[list[str]]]:
    return some.lists(some.lists(some.sampled_from(tags), min_size=1, max_size=9), min_size=1, max_size=5)


@settings(deadline=None)
@given(some.one_of(tagged(BIOES), tagged(BARE)))
def test_lenient_reading_is_seqevals(rows: list[list[str]]) -> None:
    for row in rows:
        assert [(one.type, one.start, one.end - 1) for one in entities(row)] == get_entities(row)


@pytest.mark.parametrize("scheme", ["iob2", "iobes"])
@settings(deadline=None)
@given(some.data())
def test_strict_reading_is_seqevals(scheme: str, data: some.DataObject) -> None:
    theirs, tags = SCHEMES[scheme]
    for row in data.draw(tagged(tags)):
        assert entities(row, scheme) == [(one.tag, one.start, one.end) for one in Tokens(row, theirs).entities]


@pytest.mark.parametrize("scheme", list(SCHEMES))
@settings(deadline=None)
@given(some.data())
def test_figures_are_seqevals(scheme: str, data: some.DataObject) -> None:
    theirs, tags = SCHEMES[scheme]
    gold = data.draw(tagged(tags))
    predicted = [[data.draw(some.sampled_from((tag, *tags))) for tag in row] for row in gold]
    ours = score_tag(gold, predicted, scheme, resamples=5)
    how = {"mode": "strict", "scheme": theirs} if theirs else {}
    near = {"rel": 1e-9, "abs": 1e-9}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not any(entities(row, scheme) for row in (*gold, *predicted)):
            assert ours.metrics["f1"] == ours.metrics["f1_macro"] == 0
            return
        for name, score in (("f1", f1_score), ("precision", precision_score), ("recall", recall_score)):
            assert ours.metrics[name] == pytest.approx(score(gold, predicted, zero_division=0, **how), **near)
        for mean in ("macro", "weighted"):
            wanted = f1_score(gold, predicted, average=mean, zero_division=0, **how)
            assert ours.metrics[f"f1_{mean}"] == pytest.approx(wanted, **near)
        report = classification_report(gold, predicted, output_dict=True, zero_division=0, **how)
    for line in ours.details["classes"]:
        wanted = report[line["label"]]
        found = [line["precision"], line["recall"], line["f1"], line["support"]]
        assert found == pytest.approx(
            [wanted["precision"], wanted["recall"], wanted["f1-score"], wanted["support"]], **near
        )


@pytest.mark.parametrize(
    "spelling", [{"I": "M", "E": "E", "S": "S"}, {"I": "M", "E": "E", "S": "W"}, {"I": "I", "E": "L", "S": "U"}]
)
def test_other_spellings_of_iobes_are_read_as_it(spelling: dict[str, str]) -> None:
    row = ["B-X", "I-X", "E-X", "O", "S-Y", "B-Y", "E-Y", "I-X"]
    respelled = [spelling.get(tag[0], tag[0]) + tag[1:] for tag in row]
    for scheme in ("lenient", "iobes"):
        assert entities(respelled, scheme) == entities(row, scheme)
    assert entities(respelled, "iobes") == [("X", 0, 3), ("Y", 4, 5), ("Y", 5, 7)]


def test_iob1_parts_neighbours_of_one_type_only() -> None:
    assert entities(["I-X", "B-X", "I-X", "I-Y", "O", "I-X"], "iob1") == [
        ("X", 0, 1),
        ("X", 1, 3),
        ("Y", 3, 4),
        ("X", 5, 6),
    ]


def test_parts_of_speech_are_figures_of_tokens() -> None:
    gold = [["NOUN", "VERB"], ["NOUN", "NOUN", "DET"]]
    scores = score_tag(gold, [["NOUN", "NOUN"], ["NOUN", "NOUN", "DET"]])
    assert scores.metrics["accuracy"] == pytest.approx(0.8)
    assert "f1" not in scores.metrics
    assert scores.baselines["majority"]["accuracy"] == pytest.approx(0.6)
    assert names_entities(["B-X", "O"])
    assert not names_entities(["NOUN", "O"])


def test_the_commonest_tag_finds_nothing() -> None:
    gold = [["O", "O", "B-X", "O"], ["B-Y", "O"]]
    scores = score_tag(gold, gold)
    assert scores.metrics["f1"] == 1
    assert scores.baselines["majority"]["f1"] == 0
    assert scores.baselines["majority"]["token_accuracy"] == pytest.approx(4 / 6)


def test_nothing_but_outside() -> None:
    scores = score_tag([["O", "O"]], [["O", "O"]])
    assert scores.metrics["token_accuracy"] == 1
    assert scores.metrics["f1"] == 0
    assert not np.isnan(list(scores.metrics.values())).any()


def test_errors() -> None:
    with pytest.raises(InputError, match="sequence 2 has 1 gold tags and 2"):
        score_tag([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(InputError, match="'NOUN'"):
        entities(["NOUN"])
    with pytest.raises(InputError, match="IOB2"):
        entities(["S-X"], "iob2")
    with pytest.raises(ConfigError, match="did you mean 'iobes'"):
        entities(["O"], "iobe")
