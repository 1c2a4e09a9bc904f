"""Texts from a file, one after another: plain lines, JSON lines, CSV, TSV or Parquet, also .gz and .zst."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from bertworks.errors import InputError, nearest, tell

PACKED = {".gz": "gzip", ".zst": "zstd"}
csv.field_size_limit(2**31 - 1)


def texts(source: str, column: str = "text") -> Iterator[str]:
    """The texts of a file, or of standard input for `-` (plain lines, or JSON lines if they look so).

    Every line of a plain file is a text, empty ones too, so results line up with lines. Bytes that are not UTF-8 are
    replaced and counted.
    """
    if source == "-":
        yield from _guessed(_decoded(sys.stdin.buffer, "standard input"), column)
        return
    path = Path(source)
    if not path.is_file():
        raise InputError(f"{source} is not a file", "name a file of texts, or - for standard input")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = PACKED.get(suffixes[-1]) if suffixes else None
    kind = suffixes[-2] if packed and len(suffixes) > 1 else suffixes[-1] if suffixes and not packed else ".txt"
    if kind == ".parquet":
        yield from _parquet(path, column)
        return
    try:
        with _opened(path, packed) as stream:
            lines = _decoded(stream, source)
            if kind in (".jsonl", ".ndjson"):
                yield from _json_lines(lines, column, source)
            elif kind in (".csv", ".tsv"):
                yield from _table(lines, column, source, "\t" if kind == ".tsv" else ",")
            else:
                yield from (line.rstrip("\r\n") for line in lines)
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error}", "check that it is whole") from None


def _opened(path: Path, packed: str | None) -> IO[bytes]:
    if packed is None:
        return path.open("rb")
    import pyarrow

    return cast("IO[bytes]", io.BufferedReader(pyarrow.input_stream(str(path), compression=packed)))


def _decoded(stream: IO[bytes], source: str) -> Iterator[str]:
    bad = 0
    for line in stream:
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            bad += 1
            yield line.decode("utf-8", errors="replace")
    if bad:
        tell(f"{source}: {bad:,} lines are not UTF-8; their bad bytes became U+FFFD")


def _guessed(lines: Iterator[str], column: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("{"):
            yield _of_json(line, column, "standard input", number)
        else:
            yield line.rstrip("\r\n")


def _json_lines(lines: Iterator[str], column: str, source: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _of_json(line, column, source, number)


def _of_json(line: str, column: str, source: str, number: int) -> str:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}, line {number}: not JSON: {error}", "one JSON object a line is wanted") from None
    if isinstance(row, str):
        return row
    if not isinstance(row, dict):
        raise InputError(f"{source}, line {number}: not an object", f'write {{"{column}": "…"}}')
    return _cell(row, column, f"{source}, line {number}")


def _table(lines: Iterator[str], column: str, source: str, separator: str) -> Iterator[str]:
    reader = csv.DictReader(lines, delimiter=separator)
    try:
        for row in reader:
            yield _cell(row, column, f"{source}, line {reader.line_num}")
    except csv.Error as error:
        raise InputError(f"{source}, line {reader.line_num}: {error}", "check its quotes") from None


def _parquet(path: Path, column: str) -> Iterator[str]:
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            if column not in file.schema_arrow.names:
                _missing(column, file.schema_arrow.names, str(path))
            for batch in file.iter_batches(columns=[column]):
                for value in batch.column(0).to_pylist():
                    yield _cell({column: value}, column, str(path))
    except pyarrow.ArrowInvalid as error:
        raise InputError(f"{path} is not a whole Parquet file: {error}", "fetch it again") from None


def _cell(row: dict[Any, Any], column: str, where: str) -> str:
    if column not in row:
        _missing(column, [str(key) for key in row], where)
    value = row[column]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{where}: {column!r} is a {type(value).__name__}, not a text", "name a text column")
    return value


def _missing(column: str, names: list[str], where: str) -> None:
    hint = nearest(column, names) or f"its columns: {', '.join(names[:10])}"
    raise InputError(f"{where}: no column {column!r}", f"{hint} (--column NAME)")
