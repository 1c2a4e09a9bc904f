"""The same rows written in every format."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

Rows = Sequence[dict[str, Any]]


def jsonl(rows: Rows) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def table(rows: Rows, **options: Any) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), **options)
    writer.writeheader()
    writer.writerows(
        {name: json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
         for name, value in row.items()}
        for row in rows
    )  # fmt: skip
    return out.getvalue().encode()


def parquet(rows: Rows) -> bytes:
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), out)
    return out.getvalue()


def zst(data: bytes) -> bytes:
    return bytes(pyarrow.compress(data, codec="zstd", asbytes=True))


FORMATS: dict[str, Callable[[Rows], bytes]] = {
    "a.jsonl": jsonl,
    "a.json": lambda rows: json.dumps(list(rows), ensure_ascii=False, indent=1).encode(),
    "a.csv": table,
    "b.csv": lambda rows: b"\xef\xbb\xbf" + table(rows, lineterminator="\r\n"),
    "a.tsv": lambda rows: table(rows, delimiter="\t", quoting=csv.QUOTE_ALL),
    "a.parquet": parquet,
    "a.jsonl.gz": lambda rows: gzip.compress(jsonl(rows)),
    "a.jsonl.zst": lambda rows: zst(jsonl(rows)),
    "a.csv.zst": lambda rows: zst(table(rows)),
    "a.parquet.gz": lambda rows: gzip.compress(parquet(rows)),
}


def written(folder: Path, name: str, data: bytes | str | Rows) -> str:
    if isinstance(data, str):
        data = data.encode()
    elif not isinstance(data, bytes):
        data = FORMATS[name](data) if name in FORMATS else jsonl(data)
    (folder / name).write_bytes(data)
    return str(folder / name)


def quiet(_: str) -> None:
    """For a reader's `say`."""
