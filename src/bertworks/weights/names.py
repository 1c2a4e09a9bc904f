"""How Hugging Face's tensors become ours: one table per model, read in both directions.

Each of their tensors is consumed exactly once, or the load fails naming it; `write(read(x)) == x` bit for bit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bertworks.errors import WeightsError, nearest


@dataclass(frozen=True)
class Row:
    """theirs = ours (none: dropped; several: theirs holds them one below the other, in equal parts).

    `aliases` are other names of the same tensor: where present, it is they that are read, since they are what
    transformers computes with; they are written only with `write_aliases`.
    """

    theirs: str
    ours: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    write_aliases: bool = False

    def stored_as(self, names: Iterable[str]) -> str | None:
        """Which of this row's names is among `names`, the one to read first."""
        return next((name for name in (*self.aliases, self.theirs) if name in names), None)

    def read(self, tensor: Tensor) -> dict[str, Tensor]:
        """Ours from theirs: views, not copies."""
        if len(self.ours) == 1:
            return {self.ours[0]: tensor}
        return dict(zip(self.ours, tensor.tensor_split(len(self.ours)), strict=True)) if self.ours else {}

    def write(self, tensors: list[Tensor]) -> Tensor:
        return tensors[0] if len(tensors) == 1 else torch.cat(tensors)


def same(theirs: str, ours: str, *aliases: str, write_aliases: bool = False) -> Row:
    return Row(theirs, (ours,), aliases, write_aliases)


def fused(theirs: str, *ours: str) -> Row:
    """Matrices that they keep as one, such as the projections to queries, keys and values.

    >>> table = NameTable("", [fused("qkv", "q", "k", "v")])
    >>> ours = table.read({"qkv": torch.arange(6.0)})
    >>> ours["k"], table.write(ours)
    (tensor([2., 3.]), {'qkv': tensor([0., 1., 2., 3., 4., 5.])})
    """
    return Row(theirs, ours)


def dropped(theirs: str) -> Row:
    """A buffer that old versions wrote and nobody needs."""
    return Row(theirs, ())


def module(theirs: str, ours: str, bias: bool = True) -> list[Row]:
    """The weight and the bias, if it has one, of a linear layer or norm."""
    return [same(f"{theirs}.{part}", f"{ours}.{part}") for part in (("weight", "bias") if bias else ("weight",))]


class NameTable:
    """The rows of one model, ready to read a checkpoint or to write one.

    >>> table = NameTable("bert.", [*module("bert.norm", "norm"), dropped("bert.position_ids")])
    >>> ours = table.read({"norm.gamma": torch.ones(2), "norm.beta": torch.zeros(2), "position_ids": torch.arange(9)})
    >>> sorted(ours), sorted(table.write(ours))
    (['norm.bias', 'norm.weight'], ['bert.norm.bias', 'bert.norm.weight'])
    """

    def __init__(self, prefix: str, rows: Iterable[Row]) -> None:
        self.prefix, self.rows = prefix, list(rows)
        self.row_of = {name: row for row in self.rows for name in (row.theirs, *row.aliases)}

    def canonical(self, names: Iterable[str]) -> dict[str, str]:
        """Their names as this table spells them -> as the file spells them.

        Files may lack the prefix (a bare encoder) and may say gamma and beta; an unknown name is an error.
        """
        found: dict[str, str] = {}
        for name in names:
            known = name if name in self.row_of else self._respelled(name)
            if known in found:
                raise WeightsError(
                    f"tensors {found[known]!r} and {name!r} are the same part of the model",
                    "remove one of them",
                )
            found[known] = name
        return found

    def _respelled(self, name: str) -> str:
        spelled = re.sub(r"\bgamma$", "weight", re.sub(r"\bbeta$", "bias", name))
        for spelling in (spelled, self.prefix + spelled, spelled.removeprefix("module.")):
            if spelling in self.row_of:
                return spelling
        raise WeightsError(f"tensor {name!r} is not part of this model", nearest(self.prefix + spelled, self.row_of))

    def stored(self, spelled: Mapping[str, str]) -> set[str]:
        """Which tensors of ours a file holds, by its canonical names."""
        return {name for row in self.rows if row.ours and row.stored_as(spelled) for name in row.ours}

    def read(self, tensors: Mapping[str, Tensor], wanted: Mapping[str, torch.Size] | None = None) -> dict[str, Tensor]:
        """Our tensors by our names, from theirs by any spelling. Only `wanted` ones, checked for shape, if given.

        What is wanted and absent is left out: the caller decides what may be missing.
        """
        spelled = self.canonical(tensors)
        ours: dict[str, Tensor] = {}
        for row in self.rows:
            name = row.stored_as(spelled)
            if not row.ours or name is None or (wanted is not None and not any(part in wanted for part in row.ours)):
                continue
            whole = tensors[spelled[name]]
            for part, tensor in row.read(whole).items():
                if wanted is not None and tensor.shape != wanted[part]:
                    raise WeightsError(
                        f"tensor {spelled[name]!r} is {tuple(whole.shape)}, "
                        f"the model's {part} wants {tuple(wanted[part])}"
                        + (f" of it, one of {len(row.ours)}" if len(row.ours) > 1 else ""),
                        "config.json and the weights do not belong together",
                    )
                ours[part] = tensor
        return ours

    def write(self, ours: Mapping[str, Tensor], prefix: bool = True) -> dict[str, Tensor]:
        """Their tensors by their names, from ours; without the prefix for a bare encoder."""
        theirs: dict[str, Tensor] = {}
        rest = dict(ours)
        for row in self.rows:
            if not row.ours or row.ours[0] not in rest:
                continue
            tensor = row.write([rest.pop(name) for name in row.ours])
            theirs[row.theirs if prefix else row.theirs.removeprefix(self.prefix)] = tensor
            if row.write_aliases:
                theirs |= {alias: tensor.clone() for alias in row.aliases}
        if rest:
            raise WeightsError(f"no row names {next(iter(rest))!r}", "add it to the model's table of names")
        return theirs

    def theirs(self, ours: str) -> str:
        """What Hugging Face calls a tensor of ours."""
        return next((row.theirs for row in self.rows if ours in row.ours), ours)
