"""Where `predict` puts what is predicted: JSON lines, CSV or Parquet, whole or not at all, and to be gone on with.

Until it is whole, an --out grows as JSON lines in a hidden file beside it, with a note of how many rows are safely
there; CSV and Parquet are made of these at the end, some rows at a time.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from bertworks.errors import InputError, nearest
from bertworks.folders import written

KINDS = (".jsonl", ".csv", ".parquet")
AT_ONCE = 4096
DIGITS = 8  # decimals of a number: all that fp32 holds


class Sink:
    """Takes rows as they come. `count` are there already, from before where it is resumed."""

    def __init__(self, out: str | None, resume: bool, source: dict[str, str]) -> None:
        self.out = None if out is None else Path(out)
        self.source, self.count = source, 0
        self.kept: list[dict[str, Any]] = []
        self.stream: IO[str] = sys.stdout
        if self.out is None:
            return
        if self.out.suffix.lower() not in KINDS:
            known = f"known: {', '.join(KINDS)}"
            raise InputError(
                f"--out {out}: unknown kind {self.out.suffix!r}", nearest(self.out.suffix.lower(), KINDS) or known
            )
        if not self.out.parent.is_dir():
            raise InputError(f"--out {out}: there is no folder {self.out.parent}", "make it first")
        self.part, self.note = beside(self.out)
        size = self._found() if resume else 0
        self.stream = self.part.open("r+" if size else "w", encoding="utf8", newline="")
        self.stream.truncate(size)
        self.stream.seek(size)

    def _found(self) -> int:
        """The bytes of what was written before, by the note."""
        if not self.note.exists() or not self.part.exists():
            return 0
        told = json.loads(self.note.read_bytes())
        for name, value in self.source.items():
            if told[name] != value:
                raise InputError(
                    f"{self.out} was begun with {name} {told[name]}, not {value}", "leave --resume out to begin anew"
                )
        self.count = told["rows"]
        return int(told["bytes"])

    def write(self, rows: list[dict[str, Any]], quiet: bool = False) -> None:
        self.count += len(rows)
        if self.out is None and quiet:
            return
        self.stream.writelines(line(one) for one in rows)
        self.stream.flush()
        if self.out is not None:
            os.fsync(self.stream.fileno())
            told = {**self.source, "rows": self.count, "bytes": self.part.stat().st_size}
            with written(self.note) as file:
                file.write(json.dumps(told).encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if self.out is None:
            return
        self.stream.close()
        if kind is not None:
            return  # what is there is gone on with by --resume
        if self.out.suffix.lower() == ".jsonl":
            self.part.replace(self.out)
        else:
            WRITERS[self.out.suffix.lower()](self.part, self.out)
            self.part.unlink()
        self.note.unlink(missing_ok=True)


def beside(out: Path) -> tuple[Path, Path]:
    """Of an --out: what grows until it is whole, and the note of how far it is."""
    return out.with_name(f".{out.name}.part"), out.with_name(f".{out.name}.note")


def finished(out: str) -> int | None:
    """How many rows a finished --out has; None for one that is not."""
    path = Path(out)
    if not path.exists() or beside(path)[1].exists():
        return None
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return int(pq.ParquetFile(path).metadata.num_rows)
    with path.open(encoding="utf8", newline="") as file:
        return sum(1 for _ in file) if path.suffix == ".jsonl" else max(sum(1 for _ in csv.reader(file)) - 1, 0)


def line(row: dict[str, Any]) -> str:
    return json.dumps(rounded(row), ensure_ascii=False).encode("utf8", "replace").decode("utf8") + "\n"


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list | tuple) else value


def _rows(part: Path) -> Iterator[dict[str, Any]]:
    """Flat: what a prediction holds becomes columns prediction.label and so on; lists and tables become JSON."""
    with part.open(encoding="utf8", newline="") as file:
        for text in file:
            row = json.loads(text)
            said = row.pop("prediction")
            flat = {**row, **{f"prediction.{name}": value for name, value in said.items()}}
            yield {
                name: json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value
                for name, value in flat.items()
            }


def _names(part: Path) -> list[str]:
    """Every column of all rows."""
    names: dict[str, None] = {}
    for row in _rows(part):
        names.update(dict.fromkeys(row))
    return list(names)


def _csv(part: Path, out: Path) -> None:
    names = _names(part)
    with written(out) as file:
        text = io.TextIOWrapper(file, encoding="utf8", newline="", write_through=True)
        writer = csv.DictWriter(text, names)
        writer.writeheader()
        writer.writerows(_rows(part))
        text.detach()  # `file` is closed by whoever opened it


def _parquet(part: Path, out: Path) -> None:
    """Columns of numbers where all rows have numbers there, otherwise of texts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = _names(part)
    kinds: dict[str, Any] = dict.fromkeys(names)
    for row in _rows(part):
        for name, value in row.items():
            if value is not None:
                kinds[name] = _wider(kinds[name], value)
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), None: pa.string()}
    schema = pa.schema([(name, types[kinds[name]]) for name in names])
    rows = _rows(part)
    with written(out) as file, pq.ParquetWriter(file, schema) as writer:
        while some := list(islice(rows, AT_ONCE)):
            columns = {name: [_as(kinds[name], row.get(name)) for row in some] for name in names}
            writer.write_table(pa.table(columns, schema=schema))


def _wider(known: Any, value: Any) -> Any:
    kind = type(value) if type(value) in (bool, int, float) else str
    if kind is int and abs(value) >= 1 << 63:
        kind = str
    if known is None or known is kind:
        return kind
    return float if {known, kind} == {int, float} else str


def _as(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    return str(value) if kind in (str, None) else kind(value)


WRITERS = {".csv": _csv, ".parquet": _parquet}
