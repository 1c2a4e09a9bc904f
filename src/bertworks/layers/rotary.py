"""Rotary positions (Su et al., 2021): queries and keys turned by angles that grow with their place in the text.

The product of a turned query and a turned key depends on the distance between them alone, so nothing is added to
embeddings. Angles and turning are in fp32 whatever the vectors are: far into a text an angle needs every digit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from bertworks.errors import ConfigError


class Rotation(NamedTuple):
    """cos and sin [batch or 1, 1, length, depth] of every position's angles; sin's first half has its sign turned.

    Made once for all layers that turn alike.
    """

    cos: Tensor
    sin: Tensor

    def turn(self, x: Tensor) -> Tensor:
        """[batch, heads, length, depth] -> the same: number i and number i + depth/2 of a vector turn as a pair."""
        swapped = x.roll(x.shape[-1] // 2, -1)
        return torch.addcmul(x * self.cos, swapped, self.sin).to(x.dtype)


class Rotary(nn.Module):
    """positions [batch or 1, length] -> their Rotation, for heads of `depth`. Nothing in it is trained or stored.

    >>> rotary = Rotary(depth=4)
    >>> x = torch.randn(1, 2, 3, 4)
    >>> turned = rotary(torch.arange(3)[None]).turn(x)
    >>> torch.equal(turned[:, :, 0], x[:, :, 0]), torch.allclose(turned.norm(dim=-1), x.norm(dim=-1))
    (True, True)
    """

    rates: Tensor

    def __init__(self, depth: int, theta: float = 10_000.0) -> None:
        super().__init__()
        if depth % 2:
            raise ConfigError(
                f"rotary positions turn pairs of numbers, and a head has {depth}",
                "choose heads so that hidden_size / heads is even",
            )
        self.depth, self.theta = depth, theta
        self.register_buffer("rates", self._rates(), persistent=False)

    def _rates(self) -> Tensor:
        """Angle per position of each pair: from 1 down to about 1/theta."""
        return 1.0 / self.theta ** (torch.arange(0, self.depth, 2, dtype=torch.float32) / self.depth)

    def forward(self, positions: Tensor) -> Rotation:
        angles = positions[:, None, :, None].float() * self.rates
        cos, sin = angles.cos(), angles.sin()
        return Rotation(torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """A module that is converted to half precision keeps its rates in fp32; only the device changes."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.rates = self._rates().to(self.rates.device)
        return self

    def extra_repr(self) -> str:
        return f"depth={self.depth}, theta={self.theta:g}"
