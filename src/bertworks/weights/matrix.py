"""Ready-made embedding matrices: safetensors, .npy, and the text format of word2vec and GloVe (also .gz, .zst)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertworks.errors import InputError, WeightsError

PACKED = {".gz": "gzip", ".zst": "zstd"}


@dataclass(frozen=True)
class Matrix:
    """rows [count, size]; words name the rows, or None where the rows stand in the vocabulary's own order."""

    rows: Tensor
    words: list[str] | None = None

    def for_vocabulary(
        self, vocabulary: Mapping[str, int], std: float = 0.02, generator: torch.Generator | None = None
    ) -> tuple[Tensor, int]:
        """A row for every token [tokens, size], and how many were found; the others are drawn, normal with `std`.

        A token is looked for as it is spelled, then without its mark of a word's beginning (▁, Ġ), then in lower
        case.

        >>> matrix, found = Matrix(torch.ones(1, 2), ["the"]).for_vocabulary({"▁The": 0, "xyz": 1})
        >>> found, matrix[0].tolist()
        (1, [1.0, 1.0])
        """
        size = max(vocabulary.values()) + 1
        if self.words is None:
            if len(self.rows) != size:
                raise InputError(
                    f"the matrix has {len(self.rows)} rows and no words, the vocabulary {size} tokens",
                    "give one row per token in the vocabulary's order, or a text file that names its rows",
                )
            return self.rows.clone(), size
        row_of = {word: row for row, word in reversed(list(enumerate(self.words)))}
        made = torch.randn(size, self.rows.shape[1], generator=generator) * std
        found = 0
        for token, at in vocabulary.items():
            bare = token.lstrip("▁Ġ")
            row = next((row_of[name] for name in (token, bare, bare.lower()) if name in row_of), None)
            if row is not None:
                made[at] = self.rows[row]
                found += 1
        return made, found


def read_matrix(path: str | Path, tensor: str | None = None) -> Matrix:
    """The matrix in a file; `tensor` names one of several in a safetensors file."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path} is not a file", "name a .safetensors, .npy or word2vec/GloVe text file")
    if path.suffix == ".npy":
        return Matrix(_checked(_from_npy(path), path))
    if path.suffix == ".safetensors":
        return Matrix(_checked(_from_safetensors(path, tensor), path))
    words, rows = _from_text(path)
    return Matrix(_checked(torch.from_numpy(rows), path), words)


def _from_npy(path: Path) -> Tensor:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise WeightsError(f"{path} is not a NumPy array: {error}", "save it with numpy.save") from None
    if array.dtype.kind not in "fiu":
        raise WeightsError(f"{path} holds {array.dtype}, not numbers", "save it as float32")
    return torch.from_numpy(np.array(array, dtype=np.float32))


def _from_safetensors(path: Path, tensor: str | None) -> Tensor:
    from bertworks.weights.files import TensorFiles, names_in

    names = names_in(path)
    if tensor is None and len(names) > 1:
        raise InputError(f"{path} holds {len(names)} tensors", f"say which, such as tensor={sorted(names)[0]!r}")
    name = tensor or next(iter(names), "")
    if name not in names:
        raise InputError(f"{path} has no tensor {name!r}", f"it has: {', '.join(sorted(names)[:5])}")
    return TensorFiles({name: path})[name].float()


def _from_text(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """One row a line, the word and then its numbers; word2vec's first line (rows, size) is passed over."""
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    size = 0
    for number, line in enumerate(_lines(path), 1):
        cells = line.rstrip("\n").rstrip().split(" ")
        if number == 1 and len(cells) == 2 and all(cell.isdigit() for cell in cells):
            size = int(cells[1])
            continue
        size = size or len(cells) - 1
        # Words may hold spaces, so numbers are counted from the right.
        word, numbers = " ".join(cells[:-size]), cells[-size:]
        try:
            row = np.array(numbers, dtype=np.float32)
        except ValueError:
            row = np.empty(0, np.float32)
        if size < 1 or len(row) != size or not word:
            raise WeightsError(f"{path}, line {number}: not a word and {size} numbers", "mend or remove the line")
        words.append(word)
        rows.append(row)
    if not rows:
        raise WeightsError(f"{path} holds no vectors", "give one a line: the word, then its numbers")
    return words, np.stack(rows)


def _lines(path: Path) -> Iterator[str]:
    import pyarrow

    with pyarrow.input_stream(str(path), compression=PACKED.get(path.suffix)) as stream:
        rest = b""
        while chunk := stream.read(1 << 20):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from (line.decode("utf8", "replace") for line in whole if line.strip())
        if rest.strip():
            yield rest.decode("utf8", "replace")


def _checked(rows: Tensor, path: Path) -> Tensor:
    if rows.ndim != 2 or not len(rows):
        raise WeightsError(f"{path} is {tuple(rows.shape)}, not a matrix of rows", "give [tokens, size]")
    wrong = int((~torch.isfinite(rows)).any(1).sum())
    if wrong:
        raise WeightsError(f"{path}: {wrong:,} rows hold values that are not finite", "remove or mend them")
    return rows
