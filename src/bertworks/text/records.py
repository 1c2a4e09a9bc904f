"""Whole rows of one file, whatever its format: {column: value} with the line each stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from bertworks.errors import InputError
from bertworks.text.files import STDIN, Tally, blocks, kind_of, printable, source_files
from bertworks.text.lines import scrubbed, whole_lines
from bertworks.text.rows import KINDS, LONGEST_ROW, READERS, Taker, parquet, parsed

Record = tuple[int, dict[str, Any]]
Bad = Callable[[InputError, int], None]


class Wide:
    """A Taker of whole rows. A row that cannot be read is an error, unless there is `bad` to be told of it."""

    def __init__(self, where: str, tally: Tally, bad: Bad | None = None) -> None:
        self.where, self.tally, self._bad = where, tally, bad
        self.strict = bad is None

    def wanted(self, names: list[str], line: int) -> list[str]:
        twice = {name for name in names if names.count(name) > 1 and name}
        if twice:
            place = self.place(line) if line else self.where
            raise InputError(f"{place}: two columns are called {min(twice)!r}", "give each column a name of its own")
        return [name for name in names if name]

    def of(self, row: Any, line: int) -> Record | None:
        """The row with its texts mended. What is not an object is one text."""
        if isinstance(row, str):
            row = {"text": row}
        if isinstance(row, dict):
            return line, {name: _mended(value, self.tally) for name, value in row.items()}
        self.bad(InputError(f"{self.place(line)}: not an object", 'write {"text": "…", "label": "…"}'), line)
        return None

    def bad(self, error: InputError, line: int = 0) -> None:
        if self._bad is None:
            raise error
        self._bad(error, line)

    def place(self, line: int) -> str:
        return f"{self.where}:{line}"

    def end(self) -> None:
        """Nothing is held back."""


def _mended(value: Any, tally: Tally) -> Any:
    if isinstance(value, str):
        return scrubbed(value, tally)
    if isinstance(value, list):
        return [_mended(one, tally) for one in value]
    if isinstance(value, dict):
        return {name: _mended(one, tally) for name, one in value.items()}
    return value


def one_file(source: str) -> str:
    """The address of a single file or of standard input; what else a person may have named is refused."""
    files = source_files([source])
    if len(files) != 1 or (files[0].address != source and "://" not in source):
        raise InputError(f"{source} is not one file", "name one file of examples")
    return files[0].address


def records(source: str, tally: Tally, bad: Bad | None = None) -> Iterator[Record]:
    """Line and columns of every row, one after another; nothing here grows with the file.

    Lines are those of the file for JSON lines, JSON, CSV and TSV (where the row begins), and the number of the row
    for Parquet. Other files, and standard input, are plain lines with the one column "text" (empty ones too), or
    JSON lines where they begin with a brace.
    """
    taker: Taker[Record] = Wide(place_name(source), tally, bad)
    kind = kind_of(source)[0]
    if kind == ".parquet":
        found = parquet(source, taker)
    elif kind in KINDS:
        found = READERS[kind](blocks(source), taker)
    else:
        found = _plain(source, taker)
    return (row for _, row in found if row is not None)


def place_name(source: str) -> str:
    """How errors name a file."""
    return "standard input" if source == STDIN else printable(source)


def _plain(source: str, taker: Taker[Record]) -> Iterator[tuple[int, Record | None]]:
    found = whole_lines(blocks(source), taker.tally, LONGEST_ROW, taker.where)
    first = next(found, None)
    if first is None:
        return
    braces = first.lstrip().startswith("{")
    for number, line in enumerate(chain((first,), found), 1):
        if not braces:
            yield number, taker.of(line, number)
        elif line and not line.isspace():
            try:
                yield number, taker.of(parsed(line, taker.place(number)), number)
            except InputError as error:
                taker.bad(error, number)
