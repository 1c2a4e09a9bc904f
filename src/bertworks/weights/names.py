"""How Hugging Face's tensors become ours: one table per model, read in both directions.

A row joins one tensor of ours to one or several of theirs. Each of their tensors is consumed exactly once, or the
load fails naming it; `write(read(x)) == x` bit for bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bertworks.errors import WeightsError, nearest


@dataclass(frozen=True)
class Row:
    """ours (None: dropped) = theirs, joined along the first dimension where several.

    `aliases` are other names of the same tensor: where present, it is they that are read, since they are what
    transformers computes with; they are written only with `write_aliases`.
    """

    theirs: tuple[str, ...]
    ours: str | None
    aliases: tuple[str, ...] = ()
    write_aliases: bool = False


def same(theirs: str, ours: str, *aliases: str, write_aliases: bool = False) -> Row:
    return Row((theirs,), ours, aliases, write_aliases)


def fused(theirs: Iterable[str], ours: str) -> Row:
    return Row(tuple(theirs), ours)


def dropped(theirs: str) -> Row:
    """A buffer that old versions wrote and nobody needs."""
    return Row((theirs,), None)


def module(theirs: str, ours: str) -> list[Row]:
    """The weight and the bias of a linear layer or norm."""
    return [same(f"{theirs}.{part}", f"{ours}.{part}") for part in ("weight", "bias")]


# "the tensors of a file": names and a way to get each
Lookup = Callable[[str], Tensor]


class NameTable:
    """The rows of one model, ready to read a checkpoint or to write one.

    >>> table = NameTable("bert.", [fused(["bert.q", "bert.k"], "qk"), same("bert.norm.weight", "norm")])
    >>> ours = table.read({"q": torch.ones(1), "k": torch.zeros(1), "norm.gamma": torch.ones(2)})
    >>> ours["qk"].tolist(), sorted(table.write(ours))
    ([1.0, 0.0], ['bert.k', 'bert.norm.weight', 'bert.q'])
    """

    def __init__(self, prefix: str, rows: Iterable[Row]) -> None:
        self.prefix, self.rows = prefix, list(rows)
        self.row_of = {name: row for row in self.rows for name in (*row.theirs, *row.aliases)}

    def canonical(self, names: Iterable[str]) -> dict[str, str]:
        """Their names as this table spells them -> as the file spells them.

        Files may lack the prefix (a bare encoder) and may say gamma and beta; an unknown name is an error.
        """
        found: dict[str, str] = {}
        for name in names:
            spelled = re.sub(r"\bgamma$", "weight", re.sub(r"\bbeta$", "bias", name))
            tries = (spelled, self.prefix + spelled, spelled.removeprefix("module."))
            known = next((spelling for spelling in tries if spelling in self.row_of), None)
            if known is None:
                raise WeightsError(
                    f"tensor {name!r} is not part of this model", nearest(self.prefix + spelled, self.row_of)
                )
            if known in found:
                raise WeightsError(
                    f"tensors {found[known]!r} and {name!r} are the same part of the model",
                    "remove one of them",
                )
            found[known] = name
        return found

    def read(
        self,
        tensors: Mapping[str, Tensor],
        wanted: Mapping[str, torch.Size] | None = None,
        take: Callable[[str, Tensor], Tensor] = lambda _, tensor: tensor,
    ) -> dict[str, Tensor]:
        """Our tensors by our names, from theirs by any spelling. Only `wanted` ones, checked for shape, if given.

        What is wanted and absent is left out: the caller decides what may be missing. `take` sees each tensor by
        its name in the file before it is joined to others, to check or convert it.
        """
        spelled = self.canonical(tensors)
        ours: dict[str, Tensor] = {}
        for row in self.rows:
            if row.ours is None or (wanted is not None and row.ours not in wanted):
                continue
            names = list(row.theirs)
            for alias in row.aliases:
                names = [alias] if alias in spelled else names
            present = [name for name in names if name in spelled]
            if not present:
                continue
            if present != names:
                absent = next(name for name in names if name not in spelled)
                raise WeightsError(f"tensor {absent!r} is missing", f"{present[0]!r} is there; both are needed")
            pieces = [tensors[spelled[name]] for name in names]
            if wanted is not None:
                _check_shapes(row.ours, [spelled[name] for name in names], pieces, wanted[row.ours])
            pieces = [take(spelled[name], piece) for name, piece in zip(names, pieces, strict=True)]
            ours[row.ours] = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        return ours

    def write(self, ours: Mapping[str, Tensor], prefix: bool = True) -> dict[str, Tensor]:
        """Their tensors by their names, from ours; without the prefix for a bare encoder."""
        theirs: dict[str, Tensor] = {}
        rest = dict(ours)
        for row in self.rows:
            if row.ours is None or row.ours not in rest:
                continue
            tensor = rest.pop(row.ours)
            pieces = [tensor] if len(row.theirs) == 1 else list(tensor.chunk(len(row.theirs)))
            for name, piece in zip(row.theirs, pieces, strict=True):
                theirs[name if prefix else name.removeprefix(self.prefix)] = piece.contiguous()
            if row.write_aliases:
                theirs |= {alias: tensor.clone() for alias in row.aliases}
        if rest:
            raise WeightsError(f"no row names {next(iter(rest))!r}", "add it to the model's table of names")
        return theirs

    def theirs(self, ours: str) -> str:
        """What Hugging Face calls (the first part of) a tensor of ours."""
        return next((row.theirs[0] for row in self.rows if row.ours == ours), ours)


def _check_shapes(ours: str, names: list[str], pieces: list[Tensor], wanted: torch.Size) -> None:
    expected = (wanted[0] // len(pieces), *wanted[1:]) if len(pieces) > 1 else tuple(wanted)
    for name, piece in zip(names, pieces, strict=True):
        if tuple(piece.shape) != tuple(expected):
            raise WeightsError(
                f"tensor {name!r} is {tuple(piece.shape)}, the model's {ours} wants {tuple(expected)}",
                "config.json and the weights do not belong together",
            )
