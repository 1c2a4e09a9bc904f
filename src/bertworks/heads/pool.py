"""One vector per text."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertworks.errors import ConfigError, nearest


class Pooler(nn.Module):
    """BERT's trained pooler: [batch, length, width] -> [batch, width], tanh of a dense layer over the first token.

    >>> Pooler(width=8)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 8])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, last: Tensor) -> Tensor:
        return torch.tanh(self.dense(last[:, 0]))


def first(last: Tensor, real: Tensor) -> Tensor:  # noqa: ARG001 (one signature for all poolings)
    return last[:, 0]


def first_real(last: Tensor, real: Tensor) -> Tensor:
    """As `first`, where padding may come before the text."""
    return last[torch.arange(len(last), device=last.device), real.int().argmax(1)]


def mean(last: Tensor, real: Tensor) -> Tensor:
    weight = real[:, :, None].to(last.dtype)
    return (last * weight).sum(1) / weight.sum(1).clamp(min=1e-9)


def maximum(last: Tensor, real: Tensor) -> Tensor:
    return last.masked_fill(~real[:, :, None], float("-inf")).amax(1)


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"cls": first, "mean": mean, "max": maximum}


def pool(last: Tensor, real: Tensor, how: str = "mean", normalise: bool = False) -> Tensor:
    """last [batch, length, width], real [batch, length] booleans -> [batch, width] in fp32 at least.

    >>> pool(torch.ones(1, 2, 4), torch.tensor([[True, False]]), "mean", normalise=True)
    tensor([[0.5000, 0.5000, 0.5000, 0.5000]])
    """
    if how not in POOLINGS:
        raise ConfigError(f"unknown pooling {how!r}", nearest(how, POOLINGS) or f"known: {', '.join(POOLINGS)}")
    # Sums over many tokens lose digits in half precision, so pooling is done above it.
    vectors = POOLINGS[how](last if last.dtype == torch.float64 else last.float(), real)
    return F.normalize(vectors, dim=-1) if normalise else vectors
