"""Dropout that does not cost a quarter of a training step on a CPU.

PyTorch draws each of its random numbers on a CPU one after another. Here they come 16 bits each from a fast generator:
so a rate is good to 1/65536, and what is kept is scaled by the very share that is. Without a source it is PyTorch's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Source:
    """Random bits for all dropouts of a model, a stream for each row of the batch, begun anew at each step: nothing to
    keep for a resume, and a row drops the same numbers in whatever microbatch or process it is computed.
    """

    def __init__(self, *seeds: int) -> None:
        self.seed(seeds)

    def seed(self, seeds: Iterable[int]) -> None:
        """One seed for each row."""
        self._rows = [np.random.SFC64(int(seed)) for seed in seeds]

    def kept(self, shape: torch.Size, rate: float) -> tuple[Tensor, float]:
        """Booleans of a shape, True but for about a share of `rate`, and what scales the rest to the same mean."""
        # What has another number of rows (the sequences of packed ones) draws all its bits from the first stream.
        streams = self._rows if shape[0] == len(self._rows) else self._rows[:1]
        each = shape.numel() // len(streams)
        drawn = np.empty((len(streams), -(-each // 4)), np.uint64)
        for stream, row in zip(streams, drawn, strict=True):
            row[:] = stream.random_raw(row.size)
        bits = torch.from_numpy(drawn.view(np.int16)[:, :each]).reshape(shape)
        dropped = round(rate * 65536)
        return bits >= dropped - 32768, 65536 / (65536 - dropped)


class _Dropped(torch.autograd.Function):
    """x * kept * scale, of which only the booleans are kept for the way back. As small numbers in a product they take a
    quarter of the time of `where`.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return (x * scale).mul_(kept.view(torch.int8))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        return (grads[0] * ctx.scale).mul_(kept.view(torch.int8)), None, None


class Dropout(nn.Module):
    """Of any shape, to the same shape.

    >>> layer = Dropout(0.5)
    >>> layer.source = Source(0)
    >>> sorted(set(layer(torch.ones(64)).tolist()))
    [0.0, 2.0]
    """

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate
        self.source: Source | None = None

    @property
    def active(self) -> float:
        """The rate now: none outside training."""
        return self.rate if self.training else 0.0

    def forward(self, x: Tensor) -> Tensor:
        if not self.active:
            return x
        if self.source is None or x.device.type != "cpu":
            return F.dropout(x, self.rate)
        dropped: Tensor = _Dropped.apply(x, *self.source.kept(x.shape, self.rate))  # type: ignore[no-untyped-call]
        return dropped

    def extra_repr(self) -> str:
        return f"{self.rate}"


def give_source(module: nn.Module, source: Source | None) -> None:
    """All dropouts of a module draw from `source`, in the order in which they run; None: from PyTorch's generator."""
    for part in module.modules():
        if isinstance(part, Dropout):
            part.source = source
