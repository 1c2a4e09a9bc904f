"""Reading: the same rows from every format, and what is wrong told with its line."""

from __future__ import annotations

import io
import json
import sys
import tracemalloc
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bertworks.errors import BertworksError, BertworksWarning, InputError
from bertworks.tasks.data import (
    Answer,
    Asked,
    Choice,
    Entity,
    Linked,
    RowError,
    Tagged,
    Text,
    read,
    rows,
)
from bertworks.tasks.data.read import Reading

from .files import FORMATS, quiet, written

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0\ufeff"), max_size=20)


def first(path: str, task: str | None = None, **more: Any) -> Any:
    return read(path, task, say=quiet, **more).rows[0]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=st.lists(st.tuples(WORDS, WORDS, st.sampled_from(["a", "1", "很 好"])), min_size=1, max_size=5))
def test_every_format_says_the_same(tmp_path: Path, name: str, made: list[tuple[str, str, str]]) -> None:
    path = written(tmp_path, name, [{"text": a, "text_b": b, "label": label} for a, b, label in made])
    found = read(path, say=quiet)
    assert [(row.text, row.text_b, row.label) for row in found.rows if isinstance(row, Text)] == made
    assert [row.file for row in found.rows] == [path] * len(made)


@pytest.mark.parametrize("name", FORMATS)
def test_lists_and_objects_in_every_format(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name, [{"tokens": ["a b", "c"], "tags": ["O", "B-X"]}])
    assert first(path) == Tagged(file=path, line=first(path).line, tokens=("a b", "c"), tags=("O", "B-X"))
    row = {"question": "q", "context": "a context", "answers": {"text": ["context"], "answer_start": [2]}}
    assert first(written(tmp_path, name, [row])).answers == (Answer("context", 2),)
    row = {"context": "c", "question": "q", "choices": ["x, y", "z"], "label": 1}
    assert first(written(tmp_path, name, [row])).choices == ("x, y", "z")


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    data = 'text,label\n"one\ntwo",a\n\nthree,b\n'
    assert [row.line for row in read(written(tmp_path, "a.csv", data)).rows] == [2, 5]
    assert [row.line for row in read(written(tmp_path, "a.jsonl", '\n{"text":"a","label":1}\n')).rows] == [2]
    assert first(written(tmp_path, "a.csv", data)).place == f"{tmp_path}/a.csv:2"


@pytest.mark.parametrize(
    ("name", "data", "task", "says"),
    [
        ("a.jsonl", "", None, "a.jsonl: no rows"),
        ("a.csv", "text,label\n", None, "a.csv: no rows"),
        ("a.conll", "\n\n-DOCSTART- O\n\n", None, "a.conll: no rows"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "a" "label": 1}', None, "a.jsonl:2: not JSON"),
        ("a.jsonl", '{"text": "a", "label": 1}\n[3]', None, "a.jsonl:2: not an object"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "a"}', None, "a.jsonl:2: no column 'label'"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"label": 1}', None, "a.jsonl:2: no column 'text'"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "a", "label": null}', None, "a.jsonl:2: no label"),
        ("a.jsonl", '{"text": "a", "label": {"x": 1}}', None, "a.jsonl:1: label: a label is a string or a number"),
        ("a.jsonl", '{"text": {"a": 1}, "label": 1}', None, "a.jsonl:1: text: a text is wanted, not an object"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "a", "label": [1]}', None, "a.jsonl:2: label: .*not a list"),
        ("a.csv", "text,label\na,b,c\n", None, "a.csv:2: 3 cells where the header has 2"),
        ("a.csv", 'text,label\n"a,b\n', None, "a.csv:2: a quote is opened and never closed"),
        ("a.csv", "text,text,label\na,b,c\n", None, "a.csv:1: two columns are called 'text'"),
        ("a.csv", "text,score\na,1\nb,high\n", None, "a.csv:3: score: a number is wanted, not 'high'"),
        ("a.csv", "text,score\na,nan\n", None, "a.csv:2: score: a score is nan, which is no number"),
        ("a.csv", "text,score\na,\n", None, "a.csv:2: no score"),
        ("a.jsonl", '{"tokens": ["a", "b"], "tags": ["O"]}', None, "a.jsonl:1: 2 tokens and 1 tags"),
        ("a.jsonl", '{"tokens": ["a"], "tags": [null]}', None, "a.jsonl:1: tags: words and tags are strings"),
        ("a.conll", "a O\nb\n\nc O\n", None, "a.conll:2: 1 column where the lines above have 2"),
        ("a.conll", "New York B-LOC\nb O\n", None, "a.conll:2: 2 columns where the lines above have 3"),
        ("a.conll", "a\nb\n", None, "a.conll:1: a word and no tag"),
        ("a.jsonl", '{"question": "q", "context": "abc", "answers": ["x"]}', None, "'x' is not in its context"),
        ("a.jsonl", '{"question": "q", "context": "abC", "answers": "c"}', None, "(?s)not in its context.*it has 'C'"),
        ("a.json", '{"data": [{"paragraphs": [{"qas": [{"question": "q"}]}]}]}', None, "no 'context'"),
        ("a.jsonl", '{"choices": ["a", "b"], "label": 2}', None, "a.jsonl:1: label 2 of 2 choices"),
        ("a.jsonl", '{"choices": ["a", "b"], "label": "c"}', None, "a.jsonl:1: label 'c' is none of the choices"),
        ("a.jsonl", '{"choices": ["a"], "label": 0}', None, "a.jsonl:1: 1 choices"),
        ("a.jsonl", '{"text": "abc", "entities": [{"start": 1, "end": 9, "label": "X"}]}', None, "from 1 to 9 in a"),
        ("a.jsonl", '{"text": "abc", "entities": [{"start": 1}]}', None, "wants start, end and label"),
        ("a.txt", "just a text\n", "classify", "a.txt: no column 'label'"),
        ("a.jsonl", "caf\u00e9 is a text", None, "a.jsonl:1: not JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, name: str, data: str, task: str | None, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(written(tmp_path, name, data), task, say=quiet)


def test_bad_rows_may_be_collected(tmp_path: Path) -> None:
    data = '{"text": "a", "label": 1}\n{bad\n[1]\n{"text": "b"}\n{"text": "c", "label": 2}\n'
    told: list[RowError] = []
    found = list(rows(written(tmp_path, "a.jsonl", data), Reading(bad=told.append)))
    assert [row.line for row in found] == [1, 5]
    assert [(one.line, one.kind) for one in told] == [(2, "unreadable"), (3, "unreadable"), (4, "missing-column")]


@pytest.mark.parametrize(
    ("value", "label"), [("1", "1"), ("1", 1), ("1", 1.0), ("true", True), ("a b", " a b "), ("0.5", 0.5)]
)
def test_a_label_is_the_same_however_written(tmp_path: Path, value: str, label: Any) -> None:
    assert first(written(tmp_path, "a.jsonl", [{"text": "x", "label": label}])).label == value


def test_several_labels(tmp_path: Path) -> None:
    lists = read(
        written(tmp_path, "a.jsonl", [{"text": "x", "labels": ["b", "a"]}, {"text": "y", "labels": []}]), say=quiet
    )
    assert lists.several
    assert [row.labels for row in lists.rows if isinstance(row, Text)] == [("b", "a"), ()]
    table = read(written(tmp_path, "a.csv", "text,label\nx,b|a\ny,\n"), separator="|", say=quiet)
    assert table.several
    assert [row.labels for row in table.rows if isinstance(row, Text)] == [("b", "a"), ()]
    assert not read(written(tmp_path, "a.csv", "text,label\nx,b|a\n"), say=quiet).several


def test_tsv_with_quotes_that_are_text(tmp_path: Path) -> None:
    path = written(tmp_path, "a.tsv", 'text\tlabel\n"Hello" she said\t1\n5" disk\t0\n')
    assert [row.text for row in read(path).rows if isinstance(row, Text)] == ['"Hello" she said', '5" disk']


# -- CoNLL -----------------------------------------------------------------------------------------------

CONLL = "-DOCSTART- -X- O\n\nEU NNP B-ORG\r\nrejects VBZ O\n\n\n北京\u3000 NR B-LOC\n"


def test_conll_files(tmp_path: Path) -> None:
    found = read(written(tmp_path, "a.conll", CONLL)).rows
    assert [(row.line, row.tokens, row.tags) for row in found if isinstance(row, Tagged)] == [
        (3, ("EU", "rejects"), ("B-ORG", "O")),
        (7, ("北京\u3000",), ("B-LOC",)),
    ]
    assert first(written(tmp_path, "a.txt", CONLL)).tags == ("B-ORG", "O")
    assert first(written(tmp_path, "a.bio.gz", __import__("gzip").compress(CONLL.encode()))).tags == ("B-ORG", "O")
    assert first(written(tmp_path, "a.conll", CONLL), columns={"tags": "1"}).tags == ("NNP", "VBZ")
    assert first(written(tmp_path, "a.conll", "a b\tO\nc\tB-X\n")).tokens == ("a b", "c")
    with pytest.raises(BertworksError, match="columns of a CoNLL file are numbers"):
        read(written(tmp_path, "a.conll", CONLL), columns={"tags": "ner"})


def test_conll_u(tmp_path: Path) -> None:
    lines = ["# text = don't", "1-2\tdon't" + "\t_" * 8, "1\tdo\tdo\tAUX" + "\t_" * 6, "2\tn't\tnot\tPART" + "\t_" * 6]
    found = first(written(tmp_path, "a.conllu", "\n".join(lines) + "\n"))
    assert (found.tokens, found.tags) == (("do", "n't"), ("AUX", "PART"))


def test_words_alone_to_predict(tmp_path: Path) -> None:
    found = first(written(tmp_path, "a.conll", "a\nb\n"), "tag", labelled=False)
    assert (found.tokens, found.tags) == (("a", "b"), None)
    assert first(written(tmp_path, "a.txt", "a text\n"), "tag", labelled=False).text == "a text"


def test_tags_that_are_numbers(tmp_path: Path) -> None:
    told: list[str] = []
    table = read(written(tmp_path, "a.jsonl", [{"tokens": ["a", "b"], "ner_tags": [0, 3]}]), say=told.append)
    assert isinstance(table.rows[0], Tagged)
    assert table.rows[0].tags == ("0", "3")
    assert any("tags are numbers without names" in one for one in told)


def test_entities_in_raw_text(tmp_path: Path) -> None:
    told: list[str] = []
    row = {
        "text": "我在北京 and Paris",
        "entities": [
            {"start": 9, "end": 14, "label": "LOC", "text": "Paris"},  # that is elsewhere by now
            {"start": 2, "end": 4, "label": "LOC"},
            {"start": 3, "end": 4, "label": "CHAR"},
        ],
    }
    found = read(written(tmp_path, "a.jsonl", [row]), say=told.append).rows[0]
    assert isinstance(found, Tagged)
    assert found.entities == (Entity(2, 4, "LOC"), Entity(9, 14, "LOC"))
    row["entities"][0]["start"], row["entities"][0]["end"] = 7, 12  # type: ignore[index]
    found = read(written(tmp_path, "a.jsonl", [row]), say=told.append).rows[0]
    assert isinstance(found, Tagged)
    assert found.entities == (Entity(2, 4, "LOC"), Entity(9, 14, "LOC"))
    assert any("not at their start" in one for one in told)
    assert any("overlap" in one for one in told)
    tupled = {"text": "ab", "entities": [[0, 1, "X"]]}
    assert first(written(tmp_path, "a.jsonl", [tupled])).entities == (Entity(0, 1, "X"),)
    turned = {"text": "ab", "entities": {"start": [0], "end": [1], "label": ["X"]}}
    assert first(written(tmp_path, "a.jsonl", [turned])).entities == (Entity(0, 1, "X"),)


# -- answers ---------------------------------------------------------------------------------------------


def squad(*qas: dict[str, Any], context: str = "one two one") -> str:
    return json.dumps(
        {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": list(qas)}]}]}
    )


def test_squad_json(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "a.json",
        squad(
            {"id": "x", "question": "q1", "answers": [{"text": "one", "answer_start": 8}]},
            {"id": "y", "question": "q2", "is_impossible": True, "answers": [], "plausible_answers": [{"text": "two"}]},
        ),
    )
    table = read(path)
    assert table.task == "answer"
    assert table.rows == (
        Asked(file=path, line=1, id="x", question="q1", context="one two one", answers=(Answer("one", 8),)),
        Asked(file=path, line=2, id="y", question="q2", context="one two one", answers=()),
    )


def test_the_older_shape_of_cmrc(tmp_path: Path) -> None:
    value = [
        {"context_id": "T", "context_text": "甲乙丙", "qas": [{"query_text": "?", "query_id": "T1", "answers": ["乙"]}]}
    ]
    found = first(written(tmp_path, "a.json", json.dumps(value)))
    assert (found.id, found.context, found.answers) == ("T1", "甲乙丙", (Answer("乙", 1),))


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ({"text": ["one"], "answer_start": [0]}, (0,)),
        ({"text": ["one"], "answer_start": [7]}, (8,)),
        ({"text": ["one"], "answer_start": [3]}, (0,)),
        ({"text": ["one"], "answer_start": [99]}, (8,)),
        ({"text": ["one"], "answer_start": [-1]}, (0,)),
        ([{"text": "two", "answer_start": 4}, {"text": "one"}], (4, 0)),
        ("two", (4,)),
        (["two", "one"], (4, 0)),
        ([], ()),
        (None, ()),
        ("", ()),
        ({"text": [], "answer_start": []}, ()),
    ],
)
def test_answers_however_written(tmp_path: Path, answers: Any, wanted: tuple[int, ...]) -> None:
    path = written(tmp_path, "a.jsonl", [{"question": "q", "context": "one two one", "answers": answers}])
    assert tuple(one.start for one in first(path).answers) == wanted


def test_moved_answers_are_told(tmp_path: Path) -> None:
    row = {"question": "q", "context": "one two one", "answers": {"text": ["one"], "answer_start": [7]}}
    with pytest.warns(BertworksWarning, match=r"1 answers were not at their answer_start.*line 1"):
        read(written(tmp_path, "a.jsonl", [row]))


@given(st.text("ab", min_size=1, max_size=30), st.integers(0, 29), st.integers(1, 4), st.integers(0, 40))
def test_the_nearest_place_is_the_nearest(text: str, at: int, size: int, start: int) -> None:
    from bertworks.tasks.data.spans import nearest_place

    part = text[min(at, len(text) - 1) :][:size]
    found = nearest_place(text, part, start)
    places = [place for place in range(len(text)) if text.startswith(part, place)]
    assert abs(found - start) == min(abs(place - start) for place in places)
    assert found in places


# -- choices and pairs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [1, "1", "B", "b", "yes it is", 1.0])
def test_which_choice_is_right(tmp_path: Path, label: Any) -> None:
    row = {"question": "q", "choices": ["no", "yes it is"], "label": label}
    assert first(written(tmp_path, "a.jsonl", [row])).label == 1


def test_choices_by_other_ways(tmp_path: Path) -> None:
    found = first(written(tmp_path, "a.csv", "premise,choice1,choice2,choice3,label\np,x,y,,1\n"))
    assert found == Choice(file=found.file, line=2, choices=("x", "y"), context="p", label=1)
    row = {"question": "q", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "label": "2"}
    assert first(written(tmp_path, "a.jsonl", [row])).label == 1


def test_what_belongs_together(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", [{"query": "q", "pos": ["a", "b"], "neg": ["c", "d"]}])
    table = read(path, say=quiet)
    assert table.task == "embed"
    assert table.rows == tuple(
        Linked(file=path, line=1, anchor="q", positive=one, negatives=("c", "d")) for one in "ab"
    )
    scored = first(written(tmp_path, "a.csv", "text_a,text_b,score\nx,y,0.5\n"), "embed")
    assert (scored.anchor, scored.positive, scored.score) == ("x", "y", 0.5)
    many = first(written(tmp_path, "a.csv", "anchor,positive,negative_1,negative_2\nx,y,m,n\n"))
    assert many.negatives == ("m", "n")


# -- to predict ------------------------------------------------------------------------------------------


def test_rows_to_predict_keep_their_record(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", [{"id": 7, "text": "x", "label": {"odd": 1}}])
    found = next(rows(path, Reading("classify", labelled=False, keep=True)))
    assert isinstance(found, Text)
    assert (found.text, found.labels, found.record) == ("x", None, {"id": 7, "text": "x", "label": {"odd": 1}})
    assert list(rows(written(tmp_path, "b.jsonl", ""), Reading("classify", labelled=False))) == []
    plain = rows(written(tmp_path, "a.txt", "x\n\ny"), Reading("classify", labelled=False))
    assert [row.text for row in plain if isinstance(row, Text)] == ["x", "", "y"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for data, wanted in ((b'{"text": "a"}\n\n{"text": "b"}\n', ["a", "b"]), (b"a\nb\n", ["a", "b"])):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        found = list(rows("-", Reading("classify", labelled=False)))
        assert [row.text for row in found if isinstance(row, Text)] == wanted


def test_rows_take_the_same_memory_however_many(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = written(tmp_path, "a.jsonl", [{"text": f"text {at} " * 20, "label": at % 2} for at in range(count)])
        tracemalloc.start()
        assert deque(rows(path), 1)[0].line == count
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(10)  # what is imported on the way
    assert peak(24_000) < 1.3 * peak(12_000)


def test_mended_text_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    read(
        written(tmp_path, "a.jsonl", b'{"text": "\xff", "label": 1}\n{"text": "a\\u0000", "label": 1}\n'),
        say=told.append,
    )
    assert [one.split(": ", 1)[1] for one in told] == [
        "1 lines are not UTF-8: their bad bytes became U+FFFD", "1 NUL characters were removed"
    ]  # fmt: skip


def test_only_one_file(tmp_path: Path) -> None:
    written(tmp_path, "a.jsonl", "")
    with pytest.raises(InputError, match="is not one file"):
        read(str(tmp_path))
    with pytest.raises(InputError, match=r"(?s)b.jsonl is not a file.*did you mean 'a.jsonl'"):
        read(str(tmp_path / "b.jsonl"))
