"""Losses that compare the rows of a global batch with each other, in whatever microbatches and processes it comes.

What such a loss compares are vectors, one for each row. Cut into microbatches, their vectors are made without gradients
first; the loss and its slope are those of all of them; then each microbatch is computed again, to go backward from its
own vectors' slopes (Gao et al. 2021). So the loss is that of the whole global batch, for a second forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

import torch
from torch import Tensor, nn

from .contract import Loss, Losses
from .ranks import Ranks


class Comparing(Loss, Protocol):
    def vectors(self, module: nn.Module, batch: Any) -> Tensor:
        """[rows, width]"""

    def marks(self, batch: Any) -> Tensor:
        """[rows, …] in fp64: what else is to be known of each row."""

    def compared(self, vectors: Tensor, marks: Tensor, accuracy: bool) -> Losses:
        """Of all rows of a global batch."""


def compares(loss: Loss) -> TypeGuard[Comparing]:
    return hasattr(loss, "compared")


def in_two_passes(
    loss: Comparing,
    module: nn.Module,
    batches: Sequence[tuple[Any, int]],
    accuracy: bool,
    seed: Callable[[int, int], None],
    ranks: Ranks,
) -> Loss:
    """The second pass, as a loss to be asked of each batch in its turn. batches: each with the number of its first row;
    `seed` is told that and how many they are before each is computed, so that both passes drop the same.
    """
    parts = []
    with torch.no_grad():
        for batch, row in batches:
            seed(row, len(batch.ids))
            parts.append(loss.vectors(module, batch))
    own = torch.cat(parts)
    whole, first = ranks.joined_rows(own)
    marks, _ = ranks.joined_rows(torch.cat([loss.marks(batch) for batch, _ in batches]).to(own.device))
    with torch.enable_grad():
        whole = whole.requires_grad_()
        told = loss.compared(whole, marks, accuracy)
        (slopes,) = torch.autograd.grad(told.total, whole)
    sizes = [len(part) for part in parts]
    facts = {name: value / (len(batches) * ranks.count) for name, value in told.facts.items()}
    return _Second(loss, iter(torch.split(slopes[first : first + len(own)], sizes)), facts)


class _Second:
    """Each microbatch in its turn: its total is such that going backward from it gives the slopes of the whole."""

    def __init__(self, loss: Comparing, slopes: Any, facts: Mapping[str, float]) -> None:
        self.loss, self.slopes, self.facts = loss, slopes, facts

    def counts(self, batch: Any) -> Mapping[str, int]:
        return self.loss.counts(batch)

    def __call__(self, module: nn.Module, batch: Any, counts: Mapping[str, int], accuracy: bool) -> Losses:
        del counts, accuracy
        return Losses((self.loss.vectors(module, batch) * next(self.slopes)).sum(), self.facts)
