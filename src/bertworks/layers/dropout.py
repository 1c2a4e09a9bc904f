"""Dropout that does not cost a quarter of a training step on a CPU.

PyTorch draws each of its random numbers on a CPU one after another. Here they come 16 bits each from a fast generator:
so a rate is good to 1/65536, and what is kept is scaled by the very share that is. Without a source it is PyTorch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Source:
    """Random bits for all dropouts of a model, begun anew from a seed at each step: nothing to keep for a resume."""

    def __init__(self, seed: int = 0) -> None:
        self.seed(seed)

    def seed(self, seed: int) -> None:
        self._bits = np.random.SFC64(seed)

    def kept(self, shape: torch.Size, rate: float) -> tuple[Tensor, float]:
        """Booleans of a shape, True but for about a share of `rate`, and what scales the rest to the same mean."""
        size = shape.numel()
        drawn = torch.from_numpy(self._bits.random_raw(-(-size // 4)).view(np.int16)[:size]).view(shape)
        dropped = round(rate * 65536)
        return drawn >= dropped - 32768, 65536 / (65536 - dropped)


class _Dropped(torch.autograd.Function):
    """x * kept * scale, of which only the booleans are kept for the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return torch.where(kept, x * scale, 0.0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        return torch.where(kept, grads[0] * ctx.scale, 0.0), None, None


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
