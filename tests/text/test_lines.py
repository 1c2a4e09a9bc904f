"""Bytes to lines: where they end, however they come in blocks, and what is mended on the way."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertworks.errors import InputError
from bertworks.text.files import Tally
from bertworks.text.lines import lines, whole_lines

LONGEST = 1 << 20


def blocks_of(data: bytes, *cuts: int) -> list[bytes]:
    ends = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    return [data[start:end] for start, end in pairwise(ends) if start < end]


def read(data: bytes, *cuts: int, tally: Tally | None = None) -> list[str]:
    return list(whole_lines(iter(blocks_of(data, *cuts)), tally or Tally(), LONGEST, "a.txt"))


def wanted(data: bytes) -> list[str]:
    """The plain way: decode all, split at CRLF, LF or CR."""
    text = re.sub(r"\r\n?", "\n", data.replace(b"\0", b"").decode(errors="replace")).removesuffix("\n")
    return text.split("\n") if data.strip(b"\0") else []


@pytest.mark.parametrize(
    ("data", "lines_of_it"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"\n", [""]),
        (b"a\nb\r\nc\rd", ["a", "b", "c", "d"]),
        (b"a\r\r\nb\n\r\nc\n\rd", ["a", "", "b", "", "c", "", "d"]),
        (b"\r", [""]),
        (b"a\r", ["a"]),
        ("a\u2028b\x85c\x0bd\x0ce\x1cf\x1dg\x1eh\n".encode(), ["a\u2028b\x85c\x0bd\x0ce\x1cf\x1dg\x1eh"]),
    ],
)
def test_where_lines_end_wherever_blocks_do(data: bytes, lines_of_it: list[str]) -> None:
    for cut in range(len(data) + 1):
        assert read(data, cut) == lines_of_it
    assert read(data, *range(len(data))) == lines_of_it


PIECES = st.sampled_from([b"a", b" ", b"\n", b"\r", b"\r\n", b"\0", "语".encode(), "😀".encode(), b"\xe8\xaf", b"\xff"])


@settings(max_examples=300, deadline=None)
@example(pieces=[b"a\r", b"\nb", b"\r"], cuts=[2])
@given(pieces=st.lists(PIECES, max_size=30), cuts=st.lists(st.integers(0, 60), max_size=8))
def test_blocks_do_not_matter(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    if data.startswith(b"\xff\xfe"):
        data = b"x" + data
    tally, other = Tally(), Tally()
    got = read(data, *cuts, tally=tally)
    assert "\n".join(got) == "\n".join(wanted(data))
    read(data, tally=other)
    assert tally.counts == other.counts
    assert tally.counts.get("nul_characters", 0) == data.count(b"\0")


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(PIECES.filter(lambda piece: piece not in (b"\xff", b"\xe8\xaf")), max_size=60),
    cuts=st.lists(st.integers(0, 120), max_size=8),
    longest=st.integers(4, 20),
)
def test_pieces_of_long_lines_join_to_what_was_there(pieces: list[bytes], cuts: list[int], longest: int) -> None:
    data = b"x" + b"".join(pieces)
    joined = ""
    for some, goes_on in lines(iter(blocks_of(data, *cuts)), Tally(), longest, "a.txt"):
        assert some
        joined += "\n".join(some) + ("" if goes_on else "\n")
    assert joined.removesuffix("\n") == "\n".join(wanted(data))


def test_a_long_line_is_cut_behind_white_space() -> None:
    data = b"word " * 100
    got = list(lines(iter(blocks_of(data)), Tally(), 64, "a.txt"))
    assert {some[0][-5:] for some, _ in got} == {"word "}
    assert "".join(some[0] for some, _ in got) == data.decode()


def test_a_line_that_must_be_whole() -> None:
    data = b"short\n" + b"x" * 50 + b"\nb\nc\n" + b"y" * 50
    blocks = [data[at : at + 5] for at in range(0, len(data), 5)]
    with pytest.raises(InputError, match=r"a.txt, line 2: longer than 0 MB"):
        list(whole_lines(iter(blocks), Tally(), 20, "a.txt"))
    told: list[InputError] = []
    got = list(whole_lines(iter(blocks), Tally(), 20, "a.txt", told.append))
    assert got == ["short", "", "b", "c", ""]
    assert [error.message.split(":")[0] for error in told] == ["a.txt, line 2", "a.txt, line 5"]


@settings(max_examples=100, deadline=None)
@given(
    text=st.text(st.one_of(st.sampled_from("a语😀\n\r\u2028"), st.characters(exclude_categories=["Cs"])), max_size=20),
    encoding=st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"]),
    cuts=st.lists(st.integers(0, 60), max_size=8),
)
def test_byte_order_marks(text: str, encoding: str, cuts: list[int]) -> None:
    text, mark = text.replace("\0", ""), "\ufeff"
    data = (mark + text).encode(encoding)
    assert read(data, *cuts) == wanted(text.encode())
