"""Labels: their order, their way into a model folder and back, and what a dev file may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertworks.errors import BertworksError, BertworksWarning, InputError
from bertworks.tasks.data import Labels, Table, Tagged, Text, read
from bertworks.tasks.data.labels import bio_of

from .files import quiet, written


def classes(*labels: str, file: str = "train.jsonl", several: bool = False) -> Table:
    rows = tuple(Text(file=file, line=at, text="x", labels=(label,)) for at, label in enumerate(labels, 1))
    return Table(file, "classify", rows, {}, several)


def sentence(*tags: str, file: str = "train.conll", line: int = 1) -> Tagged:
    return Tagged(file=file, line=line, tokens=("w",) * len(tags), tags=tags)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (["10", "9", "-1", "9"], ("-1", "9", "10")),
        (["10", "9", "x"], ("10", "9", "x")),
        (["b", "a", "é"], ("a", "b", "é")),
        (["坏", "好"], ("坏", "好")),
    ],
)
def test_order(found: list[str], wanted: tuple[str, ...]) -> None:
    assert Labels.of(classes(*found)).names == wanted


def test_there_and_back() -> None:
    labels = Labels.of(classes("b", "a", "c"))
    assert labels.id2label == {"0": "a", "1": "b", "2": "c"}
    assert Labels.stored(labels.id2label) == labels
    with pytest.raises(BertworksError, match="has no '1'"):
        Labels.stored({"0": "a", "2": "b"})


def test_one_class_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "train.csv", "text,label\na,1\nb,1\n")
    with pytest.raises(InputError, match=r"train.csv: every row has the label '1'"):
        Labels.of(read(path, say=quiet))
    assert Labels.of(classes("1", several=True)).names == ("1",)  # there or not there: two answers


def test_one_tag_is_an_error() -> None:
    for tags in (["O", "O"], ["NN"]):
        with pytest.raises(InputError, match=f"train.conll: every tag is '{tags[0]}'"):
            Labels.of(Table("train.conll", "tag", (sentence(*tags),), {}))


def test_a_label_that_training_has_not() -> None:
    labels = Labels.of(classes("good", "bad"))
    labels.require(classes("bad", file="dev.jsonl"))
    with pytest.raises(InputError, match=r"(?s)dev.jsonl:2: the label 'goood' .*did you mean 'good'"):
        labels.require(classes("bad", "goood", file="dev.jsonl"))
    with pytest.raises(InputError, match=r"(?s)dev.jsonl:1: .*it has bad, good"):
        labels.require(classes("x", file="dev.jsonl"))


def test_tags_are_whole_in_bio() -> None:
    table = Table("t", "tag", (sentence("S-LOC", "O", "B-PER", "E-PER"),), {})
    labels = Labels.of(table)
    assert labels.names == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert bio_of(table.rows[0], "bioes") == ["B-LOC", "O", "B-PER", "I-PER"]  # type: ignore[arg-type]
    told: list[str] = []
    labels.require(table, told.append)
    assert not told
    labels.require(Table("d", "tag", (sentence("I-ORG", "O", "B-PER", file="dev", line=9),), {}), told.append)
    assert told == ["dev:9: tags that training has not (ORG) count as answered wrongly"]


def test_plain_tags_are_as_found() -> None:
    table = Table("t", "tag", (sentence("NN", "VB"), sentence("ADJ")), {})
    assert Labels.of(table).names == ("ADJ", "NN", "VB")
    with pytest.warns(BertworksWarning, match=r"dev:1: tags that training has not \(XX\)"):
        Labels.of(table).require(Table("d", "tag", (sentence("XX", file="dev"),), {}))
