"""Layers one after another: N of their own, or G groups of shared ones looped (ALBERT)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import NamedTuple

from torch import Tensor, nn

from bertworks.errors import ConfigError

from .attention import Sight
from .blocks import Block
from .positions import RelativePositions, counted
from .rotary import Rotary


class Stacked(NamedTuple):
    """last [batch, length, width]; hidden: input and every layer's output; maps: every layer's attention."""

    last: Tensor
    hidden: tuple[Tensor, ...] = ()
    maps: tuple[Tensor, ...] = ()


class Scope(nn.Module):
    """How a layer looks about: `reach` tokens to either side (None: the whole text), its positions told by `rotary`.

    Give layers that look alike the same one: what it makes of the input is then made once.
    """

    def __init__(self, rotary: Rotary | None = None, reach: int | None = None) -> None:
        super().__init__()
        self.rotary, self.reach = rotary, reach

    def forward(self, sight: Sight, x: Tensor, positions: Tensor) -> Sight:
        """What the layers attending to x [batch, length, width], at positions [batch or 1, length], are told."""
        if self.rotary is not None:
            sight = replace(sight, rotation=self.rotary(positions))
        return sight if self.reach is None else sight.within(self.reach, x.shape[1], x.device)

    def extra_repr(self) -> str:
        return f"reach={self.reach}"


class Stack(nn.Module):
    """Blocks in order, each with weights of its own.

    `score_bias` is computed once and added to every layer's attention scores; `final_norm` closes pre-norm stacks;
    `scopes` has one for each layer, where layers look about in other ways than over the whole text.

    >>> import torch
    >>> from bertworks.layers.attention import Attention
    >>> from bertworks.layers.blocks import PreNormBlock
    >>> from bertworks.layers.feedforward import FeedForward
    >>> stack = Stack(
    ...     [PreNormBlock(Attention(8, heads=2), FeedForward(8, inner=32)) for _ in range(3)],
    ...     score_bias=RelativePositions(heads=2),
    ...     final_norm=nn.LayerNorm(8),
    ... )
    >>> out = stack(torch.randn(1, 5, 8), keep_hidden=True)
    >>> out.last.shape, len(out.hidden)
    (torch.Size([1, 5, 8]), 4)
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        score_bias: RelativePositions | None = None,
        final_norm: nn.LayerNorm | None = None,
        scopes: Sequence[Scope] = (),
    ) -> None:
        super().__init__()
        if scopes and len(scopes) != len(blocks):
            raise ConfigError(f"{len(scopes)} scopes for {len(blocks)} layers", "give one for each layer, or none")
        self.blocks = nn.ModuleList(blocks)
        self.score_bias = score_bias
        self.final_norm = final_norm
        own = list(dict.fromkeys(scopes))
        self.scopes, self.scope_of = nn.ModuleList(own), [own.index(scope) for scope in scopes]

    def order(self) -> list[Block]:
        """The blocks as data meets them."""
        return list(self.blocks)  # type: ignore[arg-type]

    def forward(
        self,
        x: Tensor,
        sight: Sight | None = None,
        positions: Tensor | None = None,
        keep_hidden: bool = False,
    ) -> Stacked:
        """x [batch, length, width]; positions [batch or 1, length] matter to `score_bias` and `scopes` alone."""
        hidden, maps = [x], []
        for block, sees in zip(self.order(), self._sights(x, sight or Sight(), positions), strict=False):
            x, seen = block(x, sees)
            if keep_hidden:
                hidden.append(x)
            if seen is not None:
                maps.append(seen)
        if self.final_norm is not None:
            x = self.final_norm(x)
            hidden[-1] = x
        return Stacked(x, tuple(hidden) if keep_hidden else (), tuple(maps))

    def _sights(self, x: Tensor, sight: Sight, positions: Tensor | None) -> Iterable[Sight]:
        """What each layer sees."""
        if self.score_bias is None and not self.scope_of:
            return repeat(sight)
        where = counted(x[:, :, 0]) if positions is None else positions
        if self.score_bias is not None:
            sight = replace(sight, bias=self.score_bias(where))
        if not self.scope_of:
            return repeat(sight)
        made = [scope(sight, x, where) for scope in self.scopes]
        return [made[at] for at in self.scope_of]


class SharedStack(Stack):
    """`layers` steps through a few groups of shared blocks: step i runs every block of group i·groups//layers.

    >>> import torch
    >>> from bertworks.layers.attention import Attention
    >>> from bertworks.layers.blocks import PostNormBlock
    >>> from bertworks.layers.feedforward import FeedForward
    >>> make = lambda: PostNormBlock(Attention(8, heads=2), FeedForward(8, inner=32))
    >>> stack = SharedStack(make, layers=6, groups=2, inner=1)
    >>> [list(stack.blocks).index(block) for block in stack.order()]
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(self, make: Callable[[], Block], layers: int, groups: int = 1, inner: int = 1) -> None:
        if not 1 <= groups <= layers:
            raise ConfigError(
                f"{groups} groups of shared layers cannot make {layers} layers",
                "choose 1 <= groups <= layers",
            )
        super().__init__([make() for _ in range(groups * inner)])
        self.layers, self.groups, self.inner = layers, groups, inner

    def order(self) -> list[Block]:
        steps = [step * self.groups // self.layers for step in range(self.layers)]
        blocks = super().order()
        return [blocks[group * self.inner + within] for group in steps for within in range(self.inner)]

    def extra_repr(self) -> str:
        return f"layers={self.layers}, groups={self.groups}, inner={self.inner}"
