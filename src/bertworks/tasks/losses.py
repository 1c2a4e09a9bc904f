"""What the losses of tasks share: scores pooled over the windows of a unit, sums that are divided by global counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertworks.train.contract import Losses

from .batches import FeatureBatch, inputs

POOLINGS = ("mean", "max", "first")


def scored(module: nn.Module, batch: FeatureBatch, head: str) -> Tensor:
    """What a head says of a batch, in fp32."""
    scores: Tensor = module(**inputs(module, batch)).scores[head]
    return scores if scores.dtype == torch.float64 else scores.float()


def pooled(scores: Tensor, batch: FeatureBatch, how: str) -> Tensor:
    """[rows, …] of windows -> [units, …]: their mean, the largest of each, or the first window's."""
    if batch.unit_count == len(scores):
        return scores
    units = torch.from_numpy(batch.units).to(scores.device)
    made = scores.new_zeros((batch.unit_count, *scores.shape[1:]))
    if how == "first":
        firsts = torch.from_numpy(batch.firsts).to(scores.device)
        return scores[firsts]
    if how == "max":
        at = units.view(-1, *[1] * (scores.ndim - 1)).expand_as(scores)
        return made.scatter_reduce(0, at, scores, "amax", include_self=False)
    sizes = torch.bincount(units, minlength=batch.unit_count).to(scores.dtype)
    return made.index_add(0, units, scores) / sizes.view(-1, *[1] * (scores.ndim - 1))


def on(module_like: Tensor, values: NDArray[Any]) -> Tensor:
    """An array where a tensor is."""
    return torch.from_numpy(values).to(module_like.device)


def counted(batch: FeatureBatch) -> dict[str, int]:
    """The counts of losses that are means over units."""
    return {"units": batch.unit_count, "tokens": batch.tokens}


def shared(
    total: Tensor, counts: Mapping[str, int], facts: Mapping[str, float] | None = None, by: str = "units"
) -> Losses:
    """A sum over this microbatch as its share of the global batch's mean; facts are sums of the same kind."""
    number = max(counts[by], 1)
    mean = total / number
    return Losses(mean, {"loss": float(mean.detach()), **{name: one / number for name, one in (facts or {}).items()}})
