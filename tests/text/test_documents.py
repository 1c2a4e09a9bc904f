"""Documents out of every kind of file: what was written is what is read, in order, in memory that does not grow."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertworks.errors import InputError
from bertworks.text import documents as module
from bertworks.text.documents import Document, Tally, documents
from tests.shell import python

TEXTS = ["the cat sat", "语言模型", 'she said: "no, never"', "a\ttab; a comma, an apostrophe's", "ends in\\", "😀 é"]
LINES_WITHIN = ["two\nlines", "one\n\nblank", "\n at the ends\n"]
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": lambda data: pyarrow.Codec("zstd").compress(data, asbytes=True),
}
TABLES = ("jsonl", "ndjson", "json", "csv", "tsv", "parquet")


def as_lines(texts: list[str]) -> bytes:
    return "".join(f"{text}\n" for text in texts).encode()


def as_json_lines(texts: list[str], column: str = "text") -> bytes:
    return "".join(
        json.dumps({"id": 7, column: text}, ensure_ascii=n % 2 == 0) + "\n" for n, text in enumerate(texts)
    ).encode()


def as_json(texts: list[str], column: str = "text") -> bytes:
    return json.dumps([{"id": 7, column: text} for text in texts], indent=1, ensure_ascii=False).encode()


def as_csv(texts: list[str], column: str = "text", delimiter: str = ",") -> bytes:
    stream = io.StringIO(newline="")
    rows = csv.writer(stream, delimiter=delimiter)
    rows.writerows([["id", column], *(["7", text] for text in texts)])
    return stream.getvalue().encode()


def as_parquet(texts: list[str], column: str = "text") -> bytes:
    stream = io.BytesIO()
    table = pyarrow.table({"id": [7] * len(texts), column: pyarrow.array(texts, pyarrow.string())})
    pyarrow.parquet.write_table(table, stream, row_group_size=1000)
    return stream.getvalue()


WRITERS: dict[str, Callable[..., bytes]] = {
    "txt": as_lines,
    "jsonl": as_json_lines,
    "ndjson": as_json_lines,
    "json": as_json,
    "csv": as_csv,
    "tsv": lambda texts, column="text": as_csv(texts, column, "\t"),
    "parquet": as_parquet,
}


def written(folder: Path, name: str, data: bytes) -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


def read(*sources: str, how: str = "auto", column: str = "text", tally: Tally | None = None) -> list[Document]:
    return list(documents(sources, how, column, tally or Tally()))


def texts_of(*sources: str, how: str = "auto", column: str = "text") -> list[str]:
    return [document.text for document in read(*sources, how=how, column=column)]


# -- every kind ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_packed_or_not(tmp_path: Path, kind: str, packed: str) -> None:
    texts = TEXTS if kind == "txt" else TEXTS + LINES_WITHIN
    name = written(tmp_path, f"a.{kind}{packed}".upper(), PACKERS[packed](WRITERS[kind](texts)))
    tally = Tally()
    got = read(name, tally=tally)
    assert [document.text for document in got] == texts
    assert [document.id for document in got] == [f"{name}:{number}" for number in range(1, len(texts) + 1)]
    assert tally.counts == {"files_read": 1, "documents_read": len(texts)}


@pytest.mark.parametrize("kind", TABLES)
def test_a_chosen_column(tmp_path: Path, kind: str) -> None:
    name = written(tmp_path, f"a.{kind}", WRITERS[kind](TEXTS, "sentence"))
    assert texts_of(name, column="sentence") == TEXTS


@pytest.mark.parametrize("kind", TABLES)
def test_a_wrong_column_is_named_with_the_nearest(tmp_path: Path, kind: str) -> None:
    name = written(tmp_path, f"a.{kind}", WRITERS[kind](TEXTS, "sentence"))
    with pytest.raises(InputError, match=r"a\.\w+(, line \d)?: no column 'sentense'\ndid you mean 'sentence'\?"):
        read(name, column="sentense")
    with pytest.raises(InputError, match="no column 'text'\nits columns: id, sentence"):
        read(name)


PLAIN = "\n first\nsecond\n\n \t\n\nthird\u3000\n\n"


@pytest.mark.parametrize(
    ("how", "wanted", "blank"),
    [
        ("line", [(":2", " first"), (":3", "second"), (":7", "third\u3000")], 5),
        ("blank", [(":2", " first\nsecond"), (":7", "third\u3000")], 0),
        ("auto", [(":2", " first\nsecond"), (":7", "third\u3000")], 0),
        ("file", [("", PLAIN.removesuffix("\n"))], 0),
    ],
)
def test_plain_text_is_told_apart_as_asked(tmp_path: Path, how: str, wanted: list[tuple[str, str]], blank: int) -> None:
    name = written(tmp_path, "a.txt", PLAIN.encode())
    tally = Tally()
    assert read(name, how=how, tally=tally) == [Document(name + place, text) for place, text in wanted]
    assert tally.counts.get("empty_documents", 0) == blank


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a\nb\nc", 3),  # no blank line
        ("a\nb\n\n\n", 2),  # blank ones at the end part nothing
        ("\n\n\na\nb", 2),  # nor at the beginning
        ("a\nb\n\nc\nd", 2),
        ("a\r\rb", 2),
        ("a\n\u2028\nb\nc", 2),  # a line of white space is a blank one
    ],
)
def test_auto(tmp_path: Path, text: str, count: int) -> None:
    assert len(read(written(tmp_path, "a.txt", text.encode()))) == count


def test_auto_decides_for_each_file_by_all_of_it(tmp_path: Path) -> None:
    lines = written(tmp_path, "a.txt", b"line\n" * 10)
    blanks = written(tmp_path, "b.txt", b"one\ndocument\n\nanother\n")
    late = written(tmp_path, "c.txt", b"x" * 99 + b"\n" + b"line\n" * 500_000 + b"\nlast\n")
    assert [len(read(name)) for name in (lines, blanks, late)] == [10, 2, 2]
    assert len(read(lines, blanks)) == 12


def test_an_unknown_way_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no way 'lines'.*\ndid you mean 'line'"):
        documents([written(tmp_path, "a.txt", b"a")], "lines", "text", Tally())


def test_order_is_that_of_sources_then_names_then_lines(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    for name in ("d/b.txt", "d/a.jsonl", "d/e/z.txt", "c.txt"):
        data = as_json_lines([name, "x"]) if name.endswith("l") else as_lines([name, "x"])
        (tmp_path / name).write_bytes(data)
    got = texts_of(str(tmp_path / "d"), str(tmp_path / "c.txt"))
    assert got == ["d/a.jsonl", "x", "d/b.txt", "x", "d/e/z.txt", "x", "c.txt", "x"]


class Typed(io.BytesIO):
    """Standard input that gives what one has typed, not what one asks for."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.readline()


@pytest.mark.parametrize("stream", [io.BytesIO, Typed])
@pytest.mark.parametrize("kind", ["txt", "jsonl"])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, kind: str, stream: type[io.BytesIO]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream(WRITERS[kind](TEXTS))))
    assert read("-") == [Document(f"-:{number}", text) for number, text in enumerate(TEXTS, 1)]


def test_a_document_comes_as_soon_as_it_is_there() -> None:
    """Nothing waits for the end of a pipe."""
    script = (
        "import os, sys; from bertworks.text.documents import documents, Tally\n"
        "inner, outer = os.pipe(); sys.stdin = os.fdopen(inner); os.write(outer, b'first\\n')\n"
        "print(next(documents(['-'], 'line', 'text', Tally())).text)"
    )
    assert python("-c", script).out == "first\n"


@pytest.mark.parametrize("kind", WRITERS)
def test_addresses(kind: str, tmp_path: Path) -> None:
    import fsspec

    data = PACKERS[".gz"](WRITERS[kind](TEXTS))
    memory = fsspec.filesystem("memory")
    memory.pipe(f"/addresses/a.{kind}.gz", data)
    written(tmp_path, f"a.{kind}.gz", data)
    for name in (f"memory://addresses/a.{kind}.gz", f"file://{tmp_path}/a.{kind}.gz"):
        assert read(name) == [Document(f"{name}:{number}", text) for number, text in enumerate(TEXTS, 1)]


# -- whatever is written ---------------------------------------------------------------------------------

SEPARATORS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e"  # str.splitlines() would split there
CHARACTERS = st.one_of(
    st.sampled_from(f'a中",;\t\\ {SEPARATORS}\ufeff\U0001f600'),
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n"),
)
INLINE = st.text(CHARACTERS, max_size=20)
FREE = st.text(st.one_of(CHARACTERS, st.sampled_from("\n")), max_size=20)


def spoken(texts: list[str]) -> list[str]:
    return [text for text in texts if text and not text.isspace()]


@settings(max_examples=150, deadline=None)
@example(texts=[f"a{SEPARATORS}b"], block=1)
@given(texts=st.lists(INLINE), block=st.integers(1, 50))
def test_any_lines_come_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str], block: int) -> None:
    texts = [text.removeprefix("\ufeff") for text in texts[:1]] + texts[1:]
    name = written(tmp_path_factory.getbasetemp(), "any.txt", as_lines(texts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bertworks.text.files.BLOCK", block)
        assert texts_of(name, how="line") == spoken(texts)


@pytest.mark.parametrize("kind", TABLES)
def test_any_rows_come_back(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    folder = tmp_path_factory.mktemp("rows")

    @settings(max_examples=60, deadline=None)
    @example(texts=[f"a{SEPARATORS}b", '"', '""', ',"\n",', "a\n", "\n\nb"], block=3)
    @given(texts=st.lists(FREE), block=st.integers(1, 50))
    def check(texts: list[str], block: int) -> None:
        name = written(folder, f"any.{kind}", WRITERS[kind](texts))
        tally = Tally()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("bertworks.text.files.BLOCK", block)
            assert [document.text for document in read(name, tally=tally)] == spoken(texts)
        assert tally.counts.get("empty_documents", 0) == len(texts) - len(spoken(texts))

    check()


@settings(max_examples=100, deadline=None)
@given(
    groups=st.lists(st.lists(INLINE.filter(str.strip), min_size=1, max_size=4), max_size=6),
    longest=st.integers(4, 200),
    how=st.sampled_from(["line", "blank", "file"]),
    block=st.integers(1, 50),
)
def test_what_is_too_long_is_cut_and_nothing_is_lost(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[str]], longest: int, how: str, block: int
) -> None:
    data = "\n\n".join("\n".join(lines) for lines in groups).removeprefix("\ufeff")
    name = written(tmp_path_factory.getbasetemp(), "long.txt", data.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LONGEST", longest)
        patch.setattr("bertworks.text.files.BLOCK", block)
        got = read(name, how=how)
        assert all(len(document.text) <= 2 * longest + block for document in got)
    assert "".join("".join(document.text.split()) for document in got) == "".join(data.split())
    assert len({document.id for document in got}) == len(got)


# -- memory and speed ------------------------------------------------------------------------------------


def corpus(size: int) -> Iterator[list[str]]:
    """Texts of that many bytes in all, in lists of a few megabytes."""
    draw = random.Random(0)
    for start in range(0, size, 4 << 20):
        words = base64.b64encode(draw.randbytes(3 * (min(4 << 20, size - start) // 4))).decode()
        yield [words[at : at + 200] for at in range(0, len(words), 200)]


def corpus_file(folder: Path, kind: str, size: int) -> str:
    path = folder / f"{size}.{kind}"
    kind, _, packed = kind.partition(".")
    if kind == "parquet":
        schema = pyarrow.schema({"text": pyarrow.string()})
        with pyarrow.parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
            writer.write_table(pyarrow.table({"text": [text for some in corpus(size) for text in some]}))
    else:
        with path.open("wb") as raw:
            stream: io.BufferedWriter | gzip.GzipFile = (
                gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=1) if packed else raw
            )
            head, row, tail = {
                "csv": (b"text,id\n", "{},7\n", b""),
                "tsv": (b"text\tid\n", "{}\t7\n", b""),
                "jsonl": (b"", '{{"text": "{}"}}\n', b""),
                "json": (b"[\n", '{{"text": "{}"}},\n', b'{"text": "end"}]'),
                "txt": (b"", "{}\n", b""),
                "blank": (b"", "{}\n\n", b""),
            }[kind]
            stream.write(head)
            for some in corpus(size):
                stream.write("".join(map(row.format, some)).encode())
            stream.write(tail)
            stream.close()
    return str(path)


PEAK = """
import sys
from pathlib import Path
from bertworks.text.documents import documents, Tally
size = sum(len(document.text) for document in documents([sys.argv[1]], "auto", "text", Tally()))
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(size, status["VmHWM"].split()[0])
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("kind", ["txt", "blank", "jsonl", "json", "csv", "tsv", "parquet", "txt.gz"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, kind: str) -> None:
    peaks = []
    for size in (10 << 20, 100 << 20):
        name = corpus_file(tmp_path, kind, size)
        done = python("-c", PEAK, name)
        assert done.code == 0, done.err
        read_size, peak = map(int, done.out.split())
        assert size * 0.99 < read_size <= size + 3
        peaks.append(peak / 1024)
        Path(name).unlink()
    print(f"{kind}: {peaks[0]:.0f} MB, {peaks[1]:.0f} MB")
    assert peaks[1] < 1.2 * peaks[0]


@pytest.mark.full
@pytest.mark.parametrize(("kind", "least"), [("txt", 150), ("jsonl", 80)])
def test_speed(tmp_path: Path, kind: str, least: float) -> None:
    """In megabytes a second on one core; the machine may be busy, so the best of three counts."""
    name = corpus_file(tmp_path, kind, 100 << 20)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        for _document in documents([name], "auto", "text", Tally()):
            pass
        seconds.append(time.process_time() - start)
    speed = os.path.getsize(name) / 1e6 / min(seconds)  # noqa: PTH202
    print(f"{kind}: {speed:.0f} MB/s")
    assert speed > least
