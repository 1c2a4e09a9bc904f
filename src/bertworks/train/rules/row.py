"""Many weights in one long row, and what is reckoned weight by weight in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

BLOCK = {"cpu": 2**18, "cuda": 2**25}  # numbers at a time: on a CPU what stays near the cores between two operations


@dataclass
class Row:
    """Weights that are changed alike. master, sums (of gradients), average and what the rule keeps: fp32 [numbers];
    weights: of the module's own type, of which its parameters are views (the same tensor as master where that is fp32).
    members: these parameters.
    """

    names: list[str]
    shapes: list[torch.Size]
    rule: str
    matrices: bool  # or biases and norms
    decay: float
    scale: float  # of the learning rate
    master: Tensor
    sums: Tensor
    weights: Tensor
    members: list[Tensor]
    average: Tensor | None
    kept: dict[str, Tensor]
    # Where ranks hold shares of the weights: how many numbers each has as a whole, and what adds up over ranks.
    sizes: list[int] = field(default_factory=list)
    total: Callable[[Tensor], None] = lambda _: None

    @property
    def remembered(self) -> dict[str, Tensor]:
        """All that a resume needs, [numbers] each."""
        return {"master": self.master, **self.kept} | ({} if self.average is None else {"average": self.average})


def parts(row: Row, numbers: Tensor) -> tuple[Tensor, ...]:
    """[numbers] -> each weight's own, as views."""
    return torch.split(numbers, [shape.numel() for shape in row.shapes])


def blocks(*rows: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same stretch of each of several [numbers], one after the other, for changes number by number."""
    yield from zip(*(torch.split(one, BLOCK["cuda" if one.is_cuda else "cpu"]) for one in rows), strict=True)


def squares(row: Row, numbers: Tensor) -> Tensor:
    """[numbers] -> [weights]: each weight's sum of squares. What a rule asks of a weight as a whole, it asks here."""
    found = torch.stack(torch._foreach_norm(parts(row, numbers))).square_()
    row.total(found)
    return found


def counts(row: Row) -> Tensor:
    """[weights]: of how many numbers each is."""
    sizes = row.sizes or [shape.numel() for shape in row.shapes]
    return torch.tensor(sizes, dtype=torch.float32, device=row.master.device)


def scale(row: Row, numbers: Tensor, by: Tensor) -> None:
    """Multiply each weight's own [numbers], in place, by its one of [weights]."""
    torch._foreach_mul_(parts(row, numbers), by.unbind())
