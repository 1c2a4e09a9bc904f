"""Rows of tables, one after another: JSON lines, JSON, CSV, TSV or Parquet. Nothing here grows with the file."""

from __future__ import annotations

import csv
import json
import re
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bertworks.errors import InputError, nearest, tell
from bertworks.text.files import STDIN, Tally, blocks, kind_of, opened
from bertworks.text.lines import lines, replaced, scrubbed, whole_lines

LONGEST_ROW = 1 << 26  # bytes of a line of JSON, characters of a CSV cell: a longer one is taken for a mistake
PATIENCE = 1000  # rows without the column before it is taken for a wrong one
PARQUET_ROWS = 512
BETWEEN = re.compile(r"[\s,]*+")
DECODER = json.JSONDecoder()
Cells = tuple[int, list[str]]
T = TypeVar("T")
Made = TypeVar("Made", covariant=True)


def texts(source: str, column: str = "text") -> Iterator[str]:
    """The texts of one file, or of standard input for `-` (plain lines, or JSON lines if they look so).

    Every line of a plain file is a text, empty ones too, so results line up with lines. A row without text is an
    empty one; every row has the column. What was mended is told at the end.
    """
    if source != STDIN and "://" not in source and (Path(source).is_dir() or not Path(source).exists()):
        raise InputError(f"{source} is not a file", "name a file of texts, or - for standard input")
    tally = Tally()
    kind = kind_of(source)[0]
    if kind in KINDS:
        wanted = Column(column, source, tally, strict=True)
        found = parquet(source, wanted) if kind == ".parquet" else READERS[kind](blocks(source), wanted)
        yield from (text or "" for _, text in found)
    else:
        yield from _plain(source, column, tally)
    said = {
        "bad_utf8_lines": "lines are not UTF-8; their bad bytes became U+FFFD",
        "nul_characters": "NUL characters were removed",
        "lone_surrogates": "half surrogates became U+FFFD",
    }
    for what, how in said.items():
        if count := tally.counts.get(what):
            tell(f"{source if source != STDIN else 'standard input'}: {count:,} {how}")


def _plain(source: str, column: str, tally: Tally) -> Iterator[str]:
    wanted = Column(column, "standard input", tally, strict=True)
    for number, line in enumerate(whole_lines(blocks(source), tally, LONGEST_ROW, source), 1):
        if source == STDIN and line.lstrip().startswith("{"):
            yield wanted.of(parsed(line, wanted.place(number)), number) or ""
        else:
            yield line


# -- rows ------------------------------------------------------------------------------------------------


class Taker(Protocol[Made]):
    """What the readers hand rows to: it says which columns it wants and what is made of a row."""

    @property
    def where(self) -> str: ...
    @property
    def tally(self) -> Tally: ...
    @property
    def strict(self) -> bool: ...

    def wanted(self, names: list[str], line: int) -> list[str]:
        """Those of a table's columns that are read; `line` is the header's, 0 where there is none."""
        ...

    def of(self, row: Any, line: int) -> Made | None:
        """What is made of a row, None where nothing is."""
        ...

    def bad(self, error: InputError, line: int = 0) -> None:
        """Told of a row that cannot be read; line 0 where only the error knows it."""
        ...

    def place(self, line: int) -> str:
        """How errors name a line."""
        ...

    def end(self) -> None:
        """Called after the last row."""
        ...


class Column:
    """The one column that is read: a Taker of texts.

    Where `strict`, every row must have it, and a row that cannot be read is an error. Otherwise such rows are counted
    ("rows_without_text", "bad_rows") and left out, and the first bad one is told: one torn line should not undo
    hours of reading. A file without one good row among its first 1,000 is an error all the same: it is not what the
    caller takes it for.
    """

    def __init__(self, name: str, where: str, tally: Tally, strict: bool = False) -> None:
        self.name, self.where, self.tally, self.strict = name, where, tally, strict
        self.found = False
        self.vain = 0  # rows before the first good one
        self.first: InputError | None = None  # what was wrong with the first of them
        self.untold: InputError | None = None

    def of(self, row: Any, line: int) -> str | None:
        """A row's text, mended; None where there is none, which is counted. A row may be the text itself."""
        if isinstance(row, dict):
            if self.name not in row:
                self._left_out("rows_without_text", lambda: self._lacks(line, list(row)))
                return None
            text = row[self.name]
            if text is None:
                self.found = True
                self.tally.add("rows_without_text")
                return None
        else:
            text = row
        if isinstance(text, str):
            self.found = True
            return scrubbed(text, self.tally)
        said, way_out = "not an object", f'write {{"{self.name}": "…"}}'
        if text is not row:
            said, way_out = f"{self.name!r} is a {type(text).__name__}, not a text", "name a text column"
        self.bad(InputError(f"{self.where}, line {line}: {said}", way_out))
        return None

    def bad(self, error: InputError, line: int = 0) -> None:  # noqa: ARG002
        """A row that cannot be read."""
        self._left_out("bad_rows", lambda: error)
        if self.tally.counts["bad_rows"] == 1:
            self.untold = error
        if self.found:
            self._tell()

    def _left_out(self, why: str, error: Callable[[], InputError]) -> None:
        if self.strict:
            raise error()
        self.tally.add(why)
        if not self.found:
            self.vain += 1
            self.first = self.first or error()
            if self.vain >= PATIENCE:
                raise self.first

    def end(self) -> None:
        """Called after the last row."""
        if self.first and not self.found:
            raise self.first
        self._tell()

    def _tell(self) -> None:
        if self.untold:
            tell(f"{self.untold.message}; it was left out, as all such rows will be, and counted (bad_rows)")
            self.untold = None

    def wanted(self, names: list[str], line: int) -> list[str]:
        if self.name not in names:
            raise self._lacks(line, names)
        return [self.name]

    def place(self, line: int) -> str:
        return f"{self.where}, line {line}"

    def _lacks(self, line: int, names: list[str]) -> InputError:
        hint = nearest(self.name, names) or f"its columns: {', '.join(names[:10])}"
        where = f"{self.where}, line {line}" if line else self.where
        return InputError(f"{where}: no column {self.name!r}", f"{hint} (--column NAME)")


def json_lines(stream: Iterator[bytes], column: Taker[T]) -> Iterator[tuple[int, T | None]]:
    """Rows of JSON lines; numbers are those of lines."""
    too_long = None if column.strict else column.bad
    for number, line in enumerate(whole_lines(stream, column.tally, LONGEST_ROW, column.where, too_long), 1):
        if line and not line.isspace():
            try:
                row = parsed(line, column.place(number))
            except InputError as error:
                column.bad(error, number)
            else:
                yield number, column.of(row, number)
    column.end()


def parsed(line: str, place: str) -> Any:
    """The value of a line of JSON; `place` names it."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        said = f"{error.msg} (column {error.colno})" if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(f"{place}: not JSON: {said}", "one JSON object a line is wanted") from None


def _json(stream: Iterator[bytes], column: Taker[T]) -> Iterator[tuple[int, T | None]]:
    """Rows of one JSON list, or of values one after another (JSON lines among them)."""
    chunks = lines(stream, column.tally, 1 << 20, column.where)
    joined = ("\n".join(some) + ("" if goes_on else "\n") for some, goes_on in chunks)
    for number, (line, value) in enumerate(_values(joined, column.place), 1):
        yield number, column.of(value, line)
    column.end()


def _values(chunks: Iterable[str], place: Callable[[int], str]) -> Iterator[tuple[int, Any]]:
    """Line and value, one by one; only what is not parsed yet is held."""
    parts: list[str] = []
    size, need, line = 0, 0, 1
    listed: bool | None = None  # whether we are in a list; None before the first sign
    for chunk in chain(chunks, (None,)):
        parts.append(chunk or "")
        size += len(parts[-1])
        if size < need and chunk is not None:
            continue
        held, at, need = "".join(parts), 0, 0
        while at < len(held):
            start = _past(BETWEEN, held, at)
            line, at = line + held.count("\n", at, start), start
            if at < len(held) and (listed is None or (listed and held[at] == "]")):
                listed = listed is None and held[at] == "["
                at += listed or held[at] == "]"
            elif at < len(held):
                found = _value(held, at, line, place, whole=chunk is None)
                if found is None:
                    need = 2 * (len(held) - at)  # an attempt costs as much as the value is long
                    break
                yield line, found[0]
                line, at = line + held.count("\n", at, found[1]), found[1]
        parts, size = [held[at:]], len(held) - at
    if listed:
        raise InputError(f"{place(line)}: the list does not end", "the file is torn: fetch or make it again")


def _past(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _value(held: str, at: int, line: int, place: Callable[[int], str], whole: bool) -> tuple[Any, int] | None:
    """The value that begins at `at` and where it ends, or None where more text is wanted."""
    try:
        return DECODER.raw_decode(held, at)
    except (ValueError, RecursionError) as error:
        if not whole and _unfinished(error, len(held)) and len(held) - at < LONGEST_ROW:
            return None
        line += held.count("\n", at, min(getattr(error, "pos", at), len(held.rstrip())))
        said = getattr(error, "msg", str(error))
        raise InputError(f"{place(line)}: not JSON: {said}", "a list of objects is wanted") from None


def _unfinished(error: Exception, size: int) -> bool:
    """Whether more text might help: the fault is at the end, or a string without one."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= size - 16 or error.msg.startswith("Unterminated string")


def _table(
    stream: Iterator[bytes], column: Taker[T], cut: Callable[[Iterator[str]], Iterator[Cells]]
) -> Iterator[tuple[int, T | None]]:
    """Rows of CSV or TSV, the header not counted; empty lines are no rows. A line end in a cell becomes LF."""
    csv.field_size_limit(LONGEST_ROW)
    names: list[str] = []
    places: list[tuple[str, int]] = []
    number, line = 0, 1
    try:
        for line, cells in cut(whole_lines(stream, column.tally, LONGEST_ROW, column.where)):
            if names:
                number += 1
                yield number, _of_cells(cells, places, len(names), line, column)
            else:
                names = cells
                places = [(name, names.index(name)) for name in column.wanted(cells, line)]
    except _Unquoted as error:
        raise InputError(f"{column.place(error.line)}: {error}", "check its quotes") from None
    column.end()


class _Unquoted(Exception):
    """A cell whose quotes do not pair; `line` is where its row begins."""

    def __init__(self, line: int, said: object) -> None:
        super().__init__(said)
        self.line = line


NEVER_CLOSED = "a quote is opened and never closed"


def _comma_rows(texts: Iterator[str]) -> Iterator[Cells]:
    """Line and cells of each row."""
    # A NUL cannot stand in the text any more: met inside a cell it says that a quote was never closed.
    reader = csv.reader(chain((f"{text}\n" for text in texts), ("\0\n",)))
    line = 1
    try:
        for cells in reader:
            if cells == ["\0"]:
                break
            if cells and "\0" in cells[-1]:
                raise _Unquoted(line, NEVER_CLOSED)
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise _Unquoted(line, error) from None


def _tab_rows(texts: Iterator[str]) -> Iterator[Cells]:
    """Line and cells of each row. Most programs that write TSV know no quotes: those that do not pair are text."""
    ahead: deque[str] = deque()
    number, width = 0, 0
    while (text := ahead.popleft() if ahead else next(texts, None)) is not None:
        number += 1
        cells, more = text.split("\t"), 0
        if text.startswith('"') or '\t"' in text:
            cells, more = _unquoted(number, text, ahead, texts, width) or (cells, 0)
        if text:
            width = width or len(cells)
            yield number, cells
        for _ in range(more):
            ahead.popleft()
        number += more


def _unquoted(
    number: int, text: str, ahead: deque[str], texts: Iterator[str], width: int
) -> tuple[list[str], int] | None:
    """The cells of a row with quotes and how many further lines it takes; None where the quotes are text.

    They are where something follows a closing one, or where line after line is a whole row of `width` if they are.
    """
    rows = width > 1 and text.count("\t") == width - 1

    def more() -> Iterator[str]:
        nonlocal rows
        yield f"{text}\n"
        for at in count():
            if at == len(ahead):
                if (another := next(texts, None)) is None:
                    return
                ahead.append(another)
            rows = rows and ahead[at].count("\t") == width - 1
            if rows and at >= 20:
                return
            yield f"{ahead[at]}\n"

    reader = csv.reader(more(), delimiter="\t", strict=True)
    try:
        cells = next(reader)
    except csv.Error as error:
        if rows or "expected after" in str(error):
            return None
        raise _Unquoted(number, NEVER_CLOSED if "end of data" in str(error) else error) from None
    taken = reader.line_num - 1
    return None if taken and rows else (cells, taken)


def _of_cells(cells: list[str], places: list[tuple[str, int]], width: int, line: int, column: Taker[T]) -> T | None:
    if len(cells) > width and any(cells[width:]):  # some programs end rows with a separator
        said = f"{column.place(line)}: {len(cells)} cells where the header has {width}"
        column.bad(InputError(said, "put quotes around texts that hold the separator"), line)
        return None
    return column.of({name: cells[at] if at < len(cells) else None for name, at in places}, line)


def parquet(address: str, column: Taker[T]) -> Iterator[tuple[int, T | None]]:
    """Rows of a Parquet file, a few hundred at a time."""
    import pyarrow
    import pyarrow.parquet

    with tempfile.TemporaryFile() as unpacked, opened(address) as stored:
        try:
            if kind_of(address)[1]:
                for block in blocks(address):
                    unpacked.write(block)
            source = unpacked if kind_of(address)[1] else stored
            # A small buffer: otherwise a row group's whole column is read at once. Checksums, where there are any.
            options = {"buffer_size": 1 << 20, "pre_buffer": False, "page_checksum_verification": True}
            with pyarrow.parquet.ParquetFile(source, **options) as file:
                names = column.wanted(file.schema_arrow.names, 0)
                number = 0
                for batch in file.iter_batches(PARQUET_ROWS, columns=names):
                    for values in zip(*(_values_of(batch.column(name), column.tally) for name in names), strict=True):
                        number += 1
                        yield number, column.of(dict(zip(names, values, strict=True)), number)
                column.end()
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{address} is not a whole Parquet file: {error}", "fetch it again") from None


def _values_of(array: Any, tally: Tally) -> list[Any]:
    import pyarrow

    if pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not pyarrow.types.is_binary(array.type) and not pyarrow.types.is_large_binary(array.type):
        try:
            return list(array.to_pylist())
        except UnicodeDecodeError:
            array = array.cast(pyarrow.large_binary())
    # Some programs write texts without saying that they are.
    return [None if one is None else replaced(one, tally) for one in array.to_pylist()]


def _csv(stream: Iterator[bytes], column: Taker[T]) -> Iterator[tuple[int, T | None]]:
    return _table(stream, column, _comma_rows)


def _tsv(stream: Iterator[bytes], column: Taker[T]) -> Iterator[tuple[int, T | None]]:
    return _table(stream, column, _tab_rows)


class _Reader(Protocol):
    def __call__(self, stream: Iterator[bytes], column: Taker[T], /) -> Iterator[tuple[int, T | None]]: ...


READERS: dict[str, _Reader] = {
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _tsv,
}
KINDS = (*READERS, ".parquet")
