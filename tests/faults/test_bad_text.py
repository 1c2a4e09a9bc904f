"""Broken and hostile text: counted, or an error that names the file. Never a crash, a hang or a silent loss."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from bertworks.errors import BertworksWarning, InputError
from bertworks.text import documents as module
from bertworks.text import files, rows
from bertworks.text.documents import Tally, documents
from tests.shell import bertworks, python

ZSTD = pyarrow.Codec("zstd")
Counts = dict[str, int]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BertworksWarning)
        yield


def written(folder: Path, name: str, data: bytes) -> str:
    (folder / name).write_bytes(data)
    return str(folder / name)


def read(*sources: str, how: str = "line", column: str = "text") -> tuple[list[str], Counts]:
    """The texts, and what was counted beside them."""
    tally = Tally()
    got = [document.text for document in documents(sources, how, column, tally)]
    counts = {what: count for what, count in tally.counts.items() if count}
    counts.pop("files_read", 0)
    assert counts.pop("documents_read", 0) == len(got)
    return got, counts


# -- bytes that are no text ------------------------------------------------------------------------------

MENDED: dict[str, tuple[bytes, list[str], Counts]] = {
    "bad UTF-8": (b"good\nb\xffd \xe8\xaf\nfine\n", ["good", "b\ufffdd \ufffd", "fine"], {"bad_utf8_lines": 1}),
    "Latin-1": ("café\nnaïve\n".encode("latin1"), ["caf\ufffd", "na\ufffdve"], {"bad_utf8_lines": 2}),
    "surrogates in UTF-8": (b"a\xed\xa0\x80b", ["a\ufffd\ufffd\ufffdb"], {"bad_utf8_lines": 1}),
    "NULs": (b"a\0b\n\0\0c\0\n", ["ab", "c"], {"nul_characters": 4}),
    "NULs alone": (b"\0" * 99, [], {"nul_characters": 99}),
    "NULs at the end": (b"a\n" + b"\0" * 99, ["a"], {"nul_characters": 99}),
    "BOM": (b"\xef\xbb\xbfa\nb", ["a", "b"], {}),
    "BOM alone": (b"\xef\xbb\xbf", [], {}),
    "BOM within": (b"a\n\xef\xbb\xbfb", ["a", "\ufeffb"], {}),
    "UTF-16": ("语\r\nb\u2028\n".encode("utf-16"), ["语", "b\u2028"], {}),
    "UTF-16 BE": ("\ufeff语\nb".encode("utf-16-be"), ["语", "b"], {}),
    "UTF-16 torn": ("ab".encode("utf-16") + b"c", ["ab\ufffd"], {"bad_utf8_lines": 1}),
    "UTF-16 half": ("a\ud83d\nb".encode("utf-16", "surrogatepass"), ["a\ufffd", "b"], {"lone_surrogates": 1}),
    "UTF-16 half at the end": ("a\ud83d".encode("utf-16", "surrogatepass"), ["a\ufffd"], {"lone_surrogates": 1}),
    "UTF-16 without BOM": ("abc\nd".encode("utf-16-le"), ["abc", "d"], {"nul_characters": 5}),
    "CR": (b"a\rb\r\rc\r", ["a", "b", "c"], {"empty_documents": 1}),
    "CRLF": (b"a\r\nb\r\n\r\nc\r\n", ["a", "b", "c"], {"empty_documents": 1}),
    "mixed ends": (b"a\nb\rc\r\nd\n\re", ["a", "b", "c", "d", "e"], {"empty_documents": 1}),
    "empty": (b"", [], {"files_empty": 1}),
    "blanks": (b"  \n\t\n\r\n\xe3\x80\x80\xc2\xa0\n" * 3, [], {"empty_documents": 12}),
    "line ends": (b"\n" * 5, [], {"empty_documents": 5}),
}


@pytest.mark.parametrize("block", [1, 2, 3, 1 << 20])
@pytest.mark.parametrize("fault", MENDED)
def test_mended_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, block: int) -> None:
    monkeypatch.setattr(files, "BLOCK", block)
    data, texts, counts = MENDED[fault]
    assert read(written(tmp_path, "a.txt", data)) == (texts, counts)


@pytest.mark.parametrize("how", ["auto", "blank", "file"])
@pytest.mark.parametrize("fault", MENDED)
def test_every_way_loses_nothing(tmp_path: Path, fault: str, how: str) -> None:
    data, texts, counts = MENDED[fault]
    got, counted = read(written(tmp_path, "a.txt", data), how=how)
    assert "".join("".join(got).split()) == "".join("".join(texts).split())
    assert counted.keys() - {"empty_documents"} == counts.keys() - {"empty_documents"}


REFUSED = {
    "UTF-32": ("ab".encode("utf-32"), "is in UTF-32\nmake it UTF-8"),
    "UTF-32 BE": ("\ufeffab".encode("utf-32-be"), "is in UTF-32"),
    "gzip": (gzip.compress(b"text"), "is packed by gzip\ngive it a name that ends in .gz"),
    "zstd": (ZSTD.compress(b"text", asbytes=True), "is packed by zstd"),
    "zip": (b"PK\x03\x04\x14\0\0\0\x08\0", "is a zip archive"),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3", "is a PDF"),
    "PNG": (b"\x89PNG\r\n\x1a\n", "is a picture"),
}


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv", "json", "txt.gz"])
@pytest.mark.parametrize("what", REFUSED)
def test_refused_by_name(tmp_path: Path, what: str, kind: str) -> None:
    data, says = REFUSED[what]
    name = written(tmp_path, f"a.{kind}", gzip.compress(data) if kind.endswith("gz") else data)
    with pytest.raises(InputError, match=rf"a\.{kind} {says}"):
        read(name)


def test_a_parquet_file_with_another_name(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"]}), tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"a.txt is a Parquet file\ngive it a name that ends in .parquet"):
        read(str(tmp_path / "a.txt"))


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n", b"\n\r"])
@pytest.mark.parametrize("before", [-2, -1, 0, 1])
def test_a_line_that_ends_where_a_block_does(tmp_path: Path, end: bytes, before: int) -> None:
    data = b"x" * (files.BLOCK - before) + end + b"second" + end
    texts, counts = read(written(tmp_path, "a.txt", data))
    assert [len(text) for text in texts] == [files.BLOCK - before, 6]
    assert counts == ({"empty_documents": 2} if end == b"\n\r" else {})


# -- lines and documents without end ---------------------------------------------------------------------


@pytest.mark.parametrize("how", ["line", "blank", "file", "auto"])
@pytest.mark.parametrize("line", ["word " * 500, "语言模型" * 500, "😀" * 600, "x" * 2048, " " * 300 + "y" * 2000])
def test_a_giant_line_is_cut_between_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, line: str
) -> None:
    monkeypatch.setattr(module, "LONGEST", 256)
    monkeypatch.setattr(files, "BLOCK", 64)
    got, counts = read(written(tmp_path, "a.txt", f"first\n{line}\nlast".encode()), how=how)
    assert "".join("".join(got).split()) == "".join(f"first{line}last".split())
    assert "\ufffd" not in "".join(got)
    assert counts["long_lines_cut"] == 1
    assert max(map(len, got)) <= 2 * 256 + 64


def test_pieces_have_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST", 100)
    monkeypatch.setattr(files, "BLOCK", 50)
    name = written(tmp_path, "a.txt", b"a\n" + b"x" * 250 + b"\nb\n")
    ids = [document.id.removeprefix(name) for document in documents([name], "line", "text", Tally())]
    assert ids == [":1", ":2", ":2+2", ":2+3", ":3"]
    name = written(tmp_path, "a.jsonl", json.dumps({"text": "x" * 250}).encode())
    tally = Tally()
    got = list(documents([name], "line", "text", tally))
    assert [document.id.removeprefix(name) for document in got] == [":1", ":1+2", ":1+3"]
    assert "".join(document.text for document in got) == "x" * 250
    assert tally.counts["long_documents_cut"] == 1


PEAK = """
import sys, time
from pathlib import Path
from bertworks.text.documents import documents, Tally
tally, start = Tally(), time.process_time()
size = sum(len(document.text) for document in documents([sys.argv[1]], "auto", "text", tally))
seconds = time.process_time() - start
peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
print(size, seconds, peak, tally.counts.get("long_lines_cut", 0))
"""
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")


def weighed(name: str) -> tuple[int, float, float, int]:
    """Characters read, seconds of work, peak of memory in MB, lines cut; in a process of its own."""
    done = python("-c", PEAK, name)
    assert done.code == 0, done.err
    size, seconds, peak, cut = done.out.split()
    return int(size), float(seconds), float(peak), int(cut)


@needs_proc
@pytest.mark.parametrize(
    ("megabytes", "unit"),
    [
        (200, b"no end of it "),
        pytest.param(200, "语言模型".encode(), marks=pytest.mark.full),
        pytest.param(1000, b"x" * 32, marks=pytest.mark.full),
    ],
)
def test_one_real_line_of_hundreds_of_megabytes(tmp_path: Path, megabytes: int, unit: bytes) -> None:
    block = unit * ((1 << 20) // len(unit))
    with (tmp_path / "a.txt").open("wb") as stream:
        for _ in range(megabytes):
            stream.write(block)
    size, seconds, peak, cut = weighed(str(tmp_path / "a.txt"))
    assert size == len(block.decode()) * megabytes
    assert cut == 1
    print(f"{megabytes / seconds:.0f} MB/s, peak {peak:.0f} MB")
    assert peak < 200
    assert megabytes / seconds > 50


@needs_proc
@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("packed", ["gz", "zst"])
def test_what_unpacks_to_a_thousand_times_its_size_flows(tmp_path: Path, packed: str, lines: bool) -> None:
    block = b"a" * ((1 << 20) - 1) + (b"\n" if lines else b"a")
    if packed == "gz":
        data = gzip.compress(block * 8, compresslevel=1) * 25
    else:
        data = ZSTD.compress(block * 200, asbytes=True)
    size, _, peak, cut = weighed(written(tmp_path, f"a.txt.{packed}", data))
    assert size == 200 * (len(block) - lines)
    assert cut == (not lines)
    print(f"{len(data):,} bytes, peak {peak:.0f} MB")
    assert peak < 250


@needs_proc
def test_a_row_that_unpacks_without_end_is_left_out(tmp_path: Path) -> None:
    filling = gzip.compress(b"a" * (8 << 20), compresslevel=1) * 40
    good = b'{"text": "good"}\n'
    data = gzip.compress(good + b'{"text": "') + filling + gzip.compress(b'"}\n' + good)
    size, _, peak, _ = weighed(written(tmp_path, "a.jsonl.gz", data))
    assert size == 8
    assert peak < 500


def test_a_file_of_line_ends_is_not_held(tmp_path: Path) -> None:
    """`auto` looks at the first megabyte, whatever is in it."""
    taken = 0

    def blocks(address: str) -> Iterator[bytes]:
        nonlocal taken
        for _ in range(50):
            taken += 1
            yield b"\n" * (1 << 18)
        yield b"end"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "blocks", blocks)
        stream = documents([written(tmp_path, "a.txt", b"")], "auto", "text", Tally())
        patch.setattr(module, "_of_lines", lambda chunks, address, tally: iter([taken]))
        patch.setattr(module, "_has_blank_line", lambda address: False)  # reads it all, and holds nothing
        assert next(iter(stream)) <= 6


# -- torn and scratched files ----------------------------------------------------------------------------

PACKERS = {"gz": gzip.compress, "zst": lambda data: ZSTD.compress(data, asbytes=True)}
CHECKED = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor(write_checksum=True).compress}


@pytest.mark.parametrize("packed", PACKERS)
def test_a_torn_packed_file_is_an_error_wherever_it_ends(tmp_path: Path, packed: str) -> None:
    draw = random.Random(0)
    text = "".join(f"line {number} {draw.random()}\n" for number in range(3000)).encode()
    whole = PACKERS[packed](text)
    for size in [1, 2, 5, 9, 12, 20, *draw.sample(range(20, len(whole)), 20), len(whole) - 4, len(whole) - 1]:
        name = written(tmp_path, f"a.txt.{packed}", whole[:size])
        with pytest.raises(InputError, match=rf"a.txt.{packed} cannot be read past .*\ncheck that it is whole"):
            read(name)
    assert read(written(tmp_path, f"a.txt.{packed}", b"")) == ([], {"files_empty": 1})
    both = written(tmp_path, f"a.txt.{packed}", whole + whole)  # packed files may be joined
    assert len(read(both)[0]) == 6000


def test_what_was_read_before_the_tear_is_told(tmp_path: Path) -> None:
    text = b"".join(b"line %d\n" % number for number in range(500_000))
    whole = gzip.compress(text, compresslevel=1)
    stream = documents([written(tmp_path, "a.txt.gz", whole[: len(whole) // 2])], "line", "text", Tally())
    taken = 0
    with pytest.raises(InputError, match=r"past [1-9],\d{3},\d{3} bytes of text: Truncated"):  # noqa: PT012
        for _ in stream:
            taken += 1
    assert taken > 100_000


@pytest.mark.parametrize("packed", PACKERS)
def test_flipped_bits_in_packed_files(tmp_path: Path, packed: str) -> None:
    draw = random.Random(0)
    text = "".join(f"line {number} {draw.random()}\n" for number in range(200)).encode()
    whole = CHECKED[packed](text)
    for _ in range(100):
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        name = written(tmp_path, f"a.txt.{packed}", bytes(data))
        try:
            said = "\n".join(read(name)[0]) + "\n"
        except InputError as error:
            said = str(error)
        assert f"a.txt.{packed} cannot be read past" in said or said == text.decode()  # the time in a header is no text


def test_flipped_and_missing_bytes_in_parquet(tmp_path: Path) -> None:
    draw = random.Random(0)
    table = pyarrow.table({"text": [f"语言 {number} {draw.random()}" for number in range(2000)], "n": [1] * 2000})
    pyarrow.parquet.write_table(table, tmp_path / "whole.parquet", row_group_size=500, write_page_checksum=True)
    whole = (tmp_path / "whole.parquet").read_bytes()
    for number in range(150):
        data = bytearray(whole)
        if number % 2:
            del data[draw.randrange(len(data)) :]
        else:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        name = written(tmp_path, "a.parquet", bytes(data))
        if number % 2:
            with pytest.raises(InputError, match=r"a.parquet is not a whole Parquet file: .*\nfetch it again"):
                read(name)
            continue
        tally = Tally()
        try:
            got = list(documents([name], "line", "text", tally))
        except InputError as error:
            said = str(error)
        else:
            said = "a.parquet"
            assert len(got) == 2000
            assert tally.counts == {"files_read": 1, "documents_read": 2000}
        assert "a.parquet" in said


def test_a_window_that_is_too_wide(tmp_path: Path) -> None:
    wide = zstandard.ZstdCompressionParameters.from_level(1, window_log=30)
    packer = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    name = written(tmp_path, "a.txt.zst", packer.compress(b"abc\n" * 9999) + packer.flush())
    with pytest.raises(InputError, match=r"too much memory.*\nunpack it first: zstd -d --long=31"):
        read(name)


# -- rows ------------------------------------------------------------------------------------------------


def test_lone_surrogates_and_nuls_in_json(tmp_path: Path) -> None:
    data = b'{"text": "a\\ud800b \\ud83d\\ude00 \\udc00\\ud800"}\n{"text": "c\\u0000d"}\n{"\\ud800": 1, "text": "e"}\n'
    texts = ["a\ufffdb \U0001f600 \ufffd\ufffd", "cd", "e"]
    assert read(written(tmp_path, "a.jsonl", data)) == (texts, {"lone_surrogates": 3, "nul_characters": 1})
    data = b"[" + data.strip().replace(b"\n", b",") + b"]"
    assert read(written(tmp_path, "a.json", data)) == (texts, {"lone_surrogates": 3, "nul_characters": 1})


def test_json_lines_conserve_rows_whatever_is_wrong(tmp_path: Path) -> None:
    draw = random.Random(0)
    bad = ["{", '{"text": "torn', "3", "[]", '{"text": 1}', "\ufeff{}", '{"text": "a"} x', "NaN", '{"text": "a\tb"}']
    without = ['{"other": "x"}', '{"text": null}', "{}"]
    blank = ['{"text": " "}', '{"text": ""}', '" "']
    good = ['{"text": "good"}', '"good"', '{"text": "go\\u0000od"}', '{"text":"good","text":"good"}']
    for _ in range(20):
        kinds = [draw.choice([bad, without, blank, good, [""]]) for _ in range(200)]
        chosen = ['{"text": "good"}', *(draw.choice(kind) for kind in kinds)]
        got, counts = read(written(tmp_path, "a.jsonl", "\n".join(chosen).encode()))
        counts.pop("nul_characters", None)
        wanted = {"bad_rows": bad, "rows_without_text": without, "empty_documents": blank}
        assert counts == {what: sum(kind is ones for kind in kinds) for what, ones in wanted.items()}
        assert got == ["good"] * (1 + sum(kind is good for kind in kinds))


def test_one_torn_line_of_many_is_told_with_its_place(tmp_path: Path) -> None:
    lines = [b'{"text": "row %d"}' % number for number in range(5000)]
    lines[3210] = lines[3210][:9]
    name = written(tmp_path, "a.jsonl", b"\n".join(lines))
    with pytest.warns(BertworksWarning, match=r"a.jsonl, line 3211: not JSON: .* \(column 10\); it was left out"):
        got, counts = read(name)
    assert (len(got), counts) == (4999, {"bad_rows": 1})


@pytest.mark.parametrize("size", [0, 10, 5000])
def test_a_quote_that_never_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(rows, "LONGEST_ROW", 1 << 12)
    data = b'text,n\ngood,1\n"never closed,2\n' + b"more,3\n" * size
    says = "a quote is opened and never closed" if size < 5000 else r"field larger than field limit \(4096\)"
    with pytest.raises(InputError, match=rf"a.csv, line 3: {says}\ncheck its quotes"):
        read(written(tmp_path, "a.csv", data))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'[{"text": "a"},\n {"text": "b"', "line 2: not JSON: Expecting ',' delimiter"),
        (b'[{"text": "a"},\n', "line 2: the list does not end"),
        (b'{"text": "a"}\n{"text": nonsense}', "line 2: not JSON: Expecting value"),
        (b"[" * 100_000, "line 1: not JSON"),
        (b"nonsense", "line 1: not JSON"),
    ],
)
def test_json_that_does_not_parse(tmp_path: Path, data: bytes, says: str) -> None:
    with pytest.raises(InputError, match=f"a.json, {says}"):
        read(written(tmp_path, "a.json", data))


def test_json_that_never_ends_is_given_up_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt to parse costs as much as the value is long: there must be few."""
    monkeypatch.setattr(rows, "LONGEST_ROW", 1 << 24)
    start = time.process_time()
    with pytest.raises(InputError, match=r"a.json, line 1: not JSON: Unterminated string"):
        read(written(tmp_path, "a.json", b'[{"text": "' + b"x" * (40 << 20)))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_wrong_column_through_the_command_line(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.table({"sentence": ["a"]}), path)
    else:
        path.write_text("sentence\na\n" if kind == "csv" else '{"sentence": "a"}\n')
    done = bertworks(
        "tokenizer",
        "train",
        path,
        "--out",
        tmp_path / "t",
        "--kind",
        "wordpiece",
        "--vocab-size",
        8000,
        "--column",
        "sentense",
    )
    assert done.code == 1
    assert f"a.{kind}" in done.err
    assert "no column 'sentense'" in done.err
    assert "did you mean 'sentence'?" in done.err
    assert not (tmp_path / "t").exists()


# -- files that cannot be had ----------------------------------------------------------------------------


def test_no_folder_without_text(tmp_path: Path) -> None:
    (tmp_path / "a.bin").touch()
    with pytest.raises(InputError, match=r"holds no text \(1 files of other kinds\)"):
        read(str(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("kind", ["txt", "jsonl.gz", "parquet"])
def test_an_unreadable_file(tmp_path: Path, kind: str) -> None:
    name = written(tmp_path, f"a.{kind}", b"")
    Path(name).chmod(0)
    with pytest.raises(InputError, match=rf"a.{kind} cannot be read: Permission denied"):
        read(name)


@pytest.mark.parametrize("kind", ["txt", "jsonl.gz", "parquet", "csv"])
def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """As above, for root too."""
    name = written(tmp_path, f"a.{kind}", b"")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(files.Path, "open", refuse)
    with pytest.raises(InputError, match=rf"a.{kind} cannot be read: Permission denied"):
        read(name)


@pytest.mark.parametrize("kind", ["txt", "jsonl", "csv", "parquet"])
def test_a_file_that_goes_away_meanwhile(tmp_path: Path, kind: str) -> None:
    names = [written(tmp_path, "a.txt", b"first\n"), written(tmp_path, f"b.{kind}", b"")]
    stream = documents(names, "line", "text", Tally())
    assert next(stream).text == "first"
    Path(names[1]).unlink()
    with pytest.raises(InputError, match=rf"b.{kind} is not a file"):
        next(stream)


def test_a_disk_that_fails_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __init__(self) -> None:
            self.left = 3

        def read1(self, size: int) -> bytes:
            self.left -= 1
            if not self.left:
                raise OSError(5, "Input/output error")
            return b"line\n"

        read = read1

    class Stdin:
        buffer = Failing()

    monkeypatch.setattr(sys, "stdin", Stdin())
    stream = documents(["-"], "line", "text", Tally())
    assert [next(stream).text, next(stream).text] == ["line", "line"]
    with pytest.raises(InputError, match="cannot be read: Input/output error"):
        next(stream)


def test_a_file_named_twice_is_read_once_and_counted(tmp_path: Path) -> None:
    name = written(tmp_path, "a.txt", b"one\n")
    (tmp_path / "link.txt").symlink_to(name)
    assert read(name, name, str(tmp_path), f"{tmp_path}/../{tmp_path.name}/a.txt") == (
        ["one"],
        {"files_named_twice": 4},
    )


def test_chinese_in_its_older_encoding_is_refused_by_name(tmp_path: Path) -> None:
    """Read as UTF-8 it would be nothing but U+FFFD."""
    path = tmp_path / "gbk.txt"
    path.write_bytes(("我们的国家有很多人在学习语言模型，这是不错的。\n" * 40).encode("gb18030"))
    with pytest.raises(InputError, match=r"reads as GB18030[\s\S]*iconv -f GB18030"):
        list(documents([str(path)], "auto", "text", Tally()))
    path.write_bytes(("Это русский текст в старой кодировке.\n" * 40).encode("koi8-r"))
    with pytest.raises(InputError, match="is not UTF-8"):
        list(documents([str(path)], "auto", "text", Tally()))
    path.write_bytes(("Un café très agréable à côté de la forêt, où l'on mange.\n" * 400).encode("latin-1"))
    with pytest.raises(InputError, match="is not UTF-8"):
        list(documents([str(path)], "auto", "text", Tally()))
    path.write_bytes(b"English with one bad byte \xff in each of its long lines of words and words.\n" * 400)
    tally = Tally()
    assert len(list(documents([str(path)], "line", "text", tally))) == 400
    assert tally.counts["bad_utf8_lines"] == 400


def test_auto_finds_a_blank_line_behind_the_first_megabyte(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("a line of words that is a sentence of its own\n" * 60_000 + "\nanother document\n")
    assert len(list(documents([str(path)], "auto", "text", Tally()))) == 2
