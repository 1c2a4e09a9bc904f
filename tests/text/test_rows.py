"""Rows of tables: what is a text and what is not, and the two ways to take a bad one."""

from __future__ import annotations

import io
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from bertworks.errors import BertworksWarning, InputError
from bertworks.text.documents import Tally, documents
from bertworks.text.rows import texts


def written(folder: Path, name: str, data: bytes | str) -> str:
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return str(folder / name)


def read(name: str, column: str = "text") -> tuple[list[str], dict[str, int]]:
    tally = Tally()
    got = [document.text for document in documents([name], "auto", column, tally)]
    return got, {what: count for what, count in tally.counts.items() if what not in ("files_read", "documents_read")}


# -- texts(): every row counts ---------------------------------------------------------------------------


def test_texts_line_up_with_lines(tmp_path: Path) -> None:
    assert list(texts(written(tmp_path, "a.txt", "a\n\n \nb\r\n\rc"))) == ["a", "", " ", "b", "", "c"]


@pytest.mark.parametrize(
    ("name", "data", "wanted"),
    [
        ("a.jsonl", '{"text": "a"}\n\n{"text": null}\n"b"\n{"text": ""}', ["a", "", "b", ""]),
        ("a.json", '[{"text": "a"}, {"text": null}, "b"]', ["a", "", "b"]),
        ("a.csv", 'n,text\n1,a\n\n2,""\n3\n4,"b\r\nc"\n', ["a", "", "", "b\nc"]),
        ("a.tsv", "text\tn\na\t1\t\t\n", ["a"]),  # separators without anything behind them
    ],
)
def test_texts_of_tables(tmp_path: Path, name: str, data: str, wanted: list[str]) -> None:
    assert list(texts(written(tmp_path, name, data))) == wanted


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.jsonl", '{"text": "a"}\n{"txt": "b"}\n', "a.jsonl, line 2: no column 'text'\ndid you mean 'txt'"),
        ("a.jsonl", '{"text": "a"}\n{"text": "b"\n', "a.jsonl, line 2: not JSON: .*\none JSON object a line"),
        ("a.jsonl", '{"text": "a"}\n[1]\n', "a.jsonl, line 2: not an object"),
        ("a.jsonl", '{"text": ["a"]}\n', "a.jsonl, line 1: 'text' is a list, not a text"),
        ("a.json", '[{"text": "a"},\n {"txt": "b"}]', "a.json, line 2: no column 'text'"),
        ("a.json", '[{"text": "a"}', "a.json, line 2: the list does not end"),
        ("a.json", '[{"text": "a"},\n{"text" "b"}]', "a.json, line 2: not JSON: Expecting ':'"),
        ("a.csv", "id,text\n1,a\n2,b, c\n", "a.csv, line 3: 3 cells where the header has 2\nput quotes around"),
        ("a.csv", "id;text\n1;a\n", "a.csv, line 1: no column 'text'\ndid you mean 'id;text'"),
    ],
)
def test_texts_stop_at_a_bad_row(tmp_path: Path, name: str, data: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        list(texts(written(tmp_path, name, data)))


def test_texts_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for data, wanted in ((b"a\n\nb", ["a", "", "b"]), (b'{"text": "a"}\nplain\n', ["a", "plain"])):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert list(texts("-")) == wanted


def test_texts_tell_what_was_mended(tmp_path: Path) -> None:
    name = written(tmp_path, "a.jsonl", b'{"text": "a\\ud800"}\n{"text": "\xff"}\n{"text": "b\\u0000c"}\n')
    with pytest.warns(BertworksWarning) as told:
        assert list(texts(name)) == ["a\ufffd", "\ufffd", "bc"]
    assert sorted(str(one.message).split(": ", 1)[1] for one in told) == [
        "1 NUL characters were removed",
        "1 half surrogates became U+FFFD",
        "1 lines are not UTF-8; their bad bytes became U+FFFD",
    ]


# -- documents(): bad rows are left out, counted and told ------------------------------------------------

GOOD, BAD = '{"text": "good"}', "{nonsense"


@pytest.mark.parametrize(
    "bad", [BAD, '{"text": "torn', "[1]", "3", "null", '{"text": 3}', '{"text": {"text": "a"}}', "[" * 99999]
)
def test_a_bad_row_is_left_out_and_counted(tmp_path: Path, bad: str) -> None:
    name = written(tmp_path, "a.jsonl", f"{GOOD}\n{bad}\n{GOOD}\n{bad}")
    with pytest.warns(
        BertworksWarning, match=r"a.jsonl, line 2: .*left out, as all such rows will be, and counted"
    ) as told:
        assert read(name) == (["good"] * 2, {"bad_rows": 2})
    assert len(told) == 1


def test_the_first_one_is_told_once_for_all_files(tmp_path: Path) -> None:
    for name in "ab":
        written(tmp_path, f"{name}.jsonl", f"{BAD}\n{GOOD}\n{BAD}\n")
    with pytest.warns(BertworksWarning, match=r"a.jsonl, line 1: not JSON") as told:
        assert read(str(tmp_path)) == (["good"] * 2, {"bad_rows": 4})
    assert len(told) == 1


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (BAD, "line 1: not JSON"),
        ("[1]", "line 1: not an object"),
        ('{"txt": "a"}', "no column 'text'\ndid you mean 'txt'"),
    ],
)
def test_a_file_that_begins_with_nothing_else_is_an_error(tmp_path: Path, bad: str, says: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for count, rest in ((1, ""), (999, ""), (1000, f"{GOOD}\n" * 5000)):
            with pytest.raises(InputError, match=rf"a.jsonl, {says if says[0] == 'l' else 'line 1: ' + says}"):
                read(written(tmp_path, "a.jsonl", f"{bad}\n" * count + rest))
    name = written(tmp_path, "a.jsonl", f"{bad}\n" * 999 + GOOD)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got, counts = read(name)
    assert got == ["good"]
    assert sum(counts.values()) == 999


def test_rows_without_text_are_counted(tmp_path: Path) -> None:
    data = f'{GOOD}\n{{"text": null}}\n{{"other": 1}}\n{{"text": " "}}\n{{"text": ""}}\n\n{GOOD}\n'
    got = read(written(tmp_path, "a.jsonl", data))
    assert got == (["good"] * 2, {"rows_without_text": 2, "empty_documents": 2})


def test_a_line_of_json_that_is_far_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertworks.text.rows.LONGEST_ROW", 1 << 12)
    monkeypatch.setattr("bertworks.text.files.BLOCK", 1 << 10)
    long = json.dumps({"text": "x" * 50_000})
    name = written(tmp_path, "a.jsonl", f"{GOOD}\n{long}\n{GOOD}\n{long}")
    with pytest.warns(BertworksWarning, match=r"a.jsonl, line 2: longer than"):
        assert read(name) == (["good"] * 2, {"bad_rows": 2})
    with pytest.raises(InputError, match=r"a.jsonl, line 2: longer than"):
        list(texts(name))


def test_cells_beyond_the_header(tmp_path: Path) -> None:
    name = written(tmp_path, "a.csv", "id,text\n1,a\n2,Hello, world\n3,b,,\n4\n")
    with pytest.warns(BertworksWarning, match="a.csv, line 3: 3 cells where the header has 2"):
        assert read(name) == (["a", "b"], {"bad_rows": 1, "rows_without_text": 1})


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (['1\t"Hello" he said.', "2\tnext"], ['"Hello" he said.', "next"]),
        (['1\t"open', "2\tnext", '3\tclosed" late', "4\tlast"], ['"open', "next", 'closed" late', "last"]),
        (['1\t"open', "2\tnext", '3\tclosed"', "4\tlast"], ['"open', "next", 'closed"', "last"]),
        (['1\t"never closed', *["2\tnext"] * 99], ['"never closed', *["next"] * 99]),
        (['1\t"', "2\tnext"], ['"', "next"]),
        (['1\t"a ""quoted"" cell"', "2\tnext"], ['a "quoted" cell', "next"]),
        (['1\t"two', 'lines"', "2\tnext"], ["two\nlines", "next"]),
        (['1\t"a', *["more"] * 99, 'tab\there"', "2\tnext"], ["\n".join(["a", *["more"] * 99, "tab\there"]), "next"]),
        (['1\t5" disk', '"2"\t"3"'], ['5" disk', "3"]),
    ],
)
def test_quotes_in_tsv_are_text_where_they_do_not_pair(tmp_path: Path, rows: list[str], wanted: list[str]) -> None:
    assert read(written(tmp_path, "a.tsv", "\n".join(["id\ttext", *rows]))) == (wanted, {})


def test_a_quote_in_tsv_that_neither_pairs_nor_is_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a.tsv, line 3: a quote is opened and never closed\ncheck its quotes"):
        read(written(tmp_path, "a.tsv", 'id\ttext\n1\ta\n2\t"two\nlines\n'))


def test_lone_headers_and_empty_tables(tmp_path: Path) -> None:
    for name, data in (("a.csv", "text,n\n"), ("a.json", "[]"), ("b.json", "[ \n ]"), ("a.jsonl", "\n\n")):
        assert read(written(tmp_path, name, data)) == ([], {})


@pytest.mark.parametrize(
    "data",
    [
        '[{"text": "a"}, {"text": "b"}]',
        '{"text": "a"} {"text": "b"}',
        '{"text":\n"a"}\n\n\n{"text": "b"}\n',
        '["a", "b"]',
        "\ufeff[\n" + " " * 5000 + '{"text" ' + "\n" * 5000 + ': "a"},\n{"text": "b"}]' + " " * 5000,
        '[{"n": 123456789, "x": [true, false, null, -1.5e10], "text": "a"}, {"text": "\\u0062"}]',
    ],
)
def test_json_in_any_shape_and_any_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str) -> None:
    name = written(tmp_path, "a.json", data)
    for block in (1, 2, 3, 7, 1000, 1 << 20) if len(data) < 1000 else (997, 1 << 20):
        monkeypatch.setattr("bertworks.text.files.BLOCK", block)
        assert read(name) == (["a", "b"], {})


def test_json_that_holds_its_rows_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'text'\nits columns: data, version"):
        read(written(tmp_path, "a.json", '{"data": [{"text": "a"}], "version": 1}'))


# -- Parquet ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.string(),
        pyarrow.large_string(),
        pyarrow.binary(),
        pyarrow.large_binary(),
        pyarrow.dictionary(pyarrow.int8(), pyarrow.string()),
    ],
    ids=str,
)
def test_every_kind_of_text_in_parquet(tmp_path: Path, kind: Any) -> None:
    array = pyarrow.array(["a", None, "语言", "", "a"]).cast(kind)
    pyarrow.parquet.write_table(pyarrow.table({"text": array}), tmp_path / "a.parquet")
    got = read(str(tmp_path / "a.parquet"))
    assert got == (["a", "语言", "a"], {"rows_without_text": 1, "empty_documents": 1})
    assert list(texts(str(tmp_path / "a.parquet"))) == ["a", "", "语言", "", "a"]


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.binary()], ids=str)
def test_bad_utf8_in_parquet(tmp_path: Path, kind: Any) -> None:
    raw = pyarrow.array([b"good", b"b\xffd", None, b"more"], pyarrow.binary())
    array = pyarrow.Array.from_buffers(kind, len(raw), raw.buffers(), null_count=1)
    pyarrow.parquet.write_table(pyarrow.table({"text": array}), tmp_path / "a.parquet")
    got = read(str(tmp_path / "a.parquet"))
    assert got == (["good", "b\ufffdd", "more"], {"rows_without_text": 1, "bad_utf8_lines": 1})


def test_a_column_of_numbers_in_parquet(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": [1, 2], "a": [{"x": 1}] * 2}), tmp_path / "a.parquet")
    for column, kind in (("text", "int"), ("a", "dict")):
        with pytest.raises(InputError, match=f"'{column}' is a {kind}, not a text\nname a text column"):
            read(str(tmp_path / "a.parquet"), column)
