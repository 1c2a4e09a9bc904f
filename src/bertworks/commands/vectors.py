"""Where `embed` puts its vectors: .npy, .jsonl, .parquet, or JSON on stdout. A file is there whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import InputError, nearest

Matrix = NDArray[np.float32]


class Writer:
    """Takes texts and their vectors as they come. A subclass says how they are written."""

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.count = path, 0
        self.kept: list[list[float]] = []
        self.part = None if path is None else path.with_name(f".{path.name}.part")

    def write(self, texts: list[str], vectors: Matrix) -> None:
        self.count += len(texts)
        self._write(texts, vectors)

    def _write(self, texts: list[str], vectors: Matrix) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        """Finish the file. Called once, when all went well."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind is None:
            self._close()
            if self.path is not None and self.part is not None:
                self.part.replace(self.path)
        elif self.part is not None:
            self.part.unlink(missing_ok=True)


def plain(vectors: Matrix) -> list[list[float]]:
    """Floats as JSON writes them: 8 decimals are all that fp32 vectors of about unit length hold."""
    return vectors.astype(np.float64).round(8).tolist()  # type: ignore[no-any-return]


class Kept(Writer):
    """Into memory, for the one JSON object of --json."""

    def _write(self, texts: list[str], vectors: Matrix) -> None:  # noqa: ARG002
        self.kept += plain(vectors)


class JsonLines(Writer):
    """One object a line: {"text": …, "embedding": […]}."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(path)
        self.stream: IO[str] = sys.stdout if self.part is None else self.part.open("w", encoding="utf8")

    def _write(self, texts: list[str], vectors: Matrix) -> None:
        for text, vector in zip(texts, plain(vectors), strict=True):
            clean = text.encode("utf8", "replace").decode("utf8")  # a lone surrogate cannot be written
            self.stream.write(json.dumps({"text": clean, "embedding": vector}, ensure_ascii=False) + "\n")

    def _close(self) -> None:
        self.stream.flush()
        if self.part is not None:
            os.fsync(self.stream.fileno())
            self.stream.close()


class Npy(Writer):
    """A NumPy array [texts, width], written as it grows: its header is put in at the end, when the size is known."""

    HEADER = 128

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.stream = path.with_name(f".{path.name}.part").open("wb")
        self.stream.write(b"\0" * self.HEADER)
        self.width = 0

    def _write(self, texts: list[str], vectors: Matrix) -> None:  # noqa: ARG002
        self.width = vectors.shape[1]
        self.stream.write(np.ascontiguousarray(vectors, "<f4").tobytes())

    def _close(self) -> None:
        says = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({self.count}, {self.width}), }}"
        body = says.ljust(self.HEADER - 11).encode("latin1") + b"\n"
        self.stream.seek(0)
        self.stream.write(b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body)
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()


class Parquet(Writer):
    """Columns text and embedding (a fixed-size list of floats)."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.writer: Any = None

    def _write(self, texts: list[str], vectors: Matrix) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        flat = pa.array(np.ascontiguousarray(vectors).ravel())
        column = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
        clean = [text.encode("utf8", "replace").decode("utf8") for text in texts]
        table = pa.table({"text": pa.array(clean, pa.string()), "embedding": column})
        if self.writer is None:
            self.writer = pq.ParquetWriter(self.part, table.schema)
        self.writer.write_table(table)

    def _close(self) -> None:
        if self.writer is None:
            self._write([], np.zeros((0, 1), np.float32))
        self.writer.close()


WRITERS: dict[str, type[Writer]] = {".npy": Npy, ".jsonl": JsonLines, ".parquet": Parquet}


def writer(out: str | None, as_json: bool = False) -> Writer:
    """The writer for an --out, or for stdout. Checked before any work is done."""
    if out is None:
        return Kept() if as_json else JsonLines()
    path = Path(out)
    kind = path.suffix.lower()
    if kind not in WRITERS:
        raise InputError(
            f"--out {out}: unknown kind {kind!r}", nearest(kind, WRITERS) or f"known: {', '.join(WRITERS)}"
        )
    if not path.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {path.parent}", "make it first")
    return WRITERS[kind](path)
