"""Scaled dot-product attention in three interchangeable ways, and the multi-head layer around it.

eager   plain matrix products; slow, and the only one that returns the attention maps
fused   PyTorch's scaled_dot_product_attention, or what is faster than it (see `batched`)
packed  for rows that hold several sequences (or padding): each sequence attends within itself, and nothing is
        computed between sequences or on padding

All three take the same `Sight` and agree to rounding. Dropout falls on the attention probabilities in all
three, as published, never on outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertworks.errors import ConfigError, nearest

from . import masks
from .dropout import Dropout
from .rotary import Rotation


@dataclass(frozen=True)
class Packing:
    """Where the sequences of a packed batch lie: per distinct length, flat positions [sequences, length].

    `masks`, where given, has what each group's tokens see within their sequence, or None for all of it.
    """

    groups: tuple[Tensor, ...]
    masks: tuple[Tensor | None, ...] = ()

    @classmethod
    def of(cls, sequences: Tensor) -> Packing:
        """From [batch, length] sequence numbers within each row, 0 on padding.

        >>> [group.tolist() for group in Packing.of(torch.tensor([[1, 1, 2, 0], [1, 1, 1, 0]])).groups]
        [[[2]], [[0, 1]], [[4, 5, 6]]]
        """
        rows = torch.arange(len(sequences), device=sequences.device)[:, None]
        # One number per (row, sequence), so that a stable sort brings each sequence's positions together.
        number = torch.where(sequences > 0, sequences + rows * (sequences.max() + 1), 0).flatten()
        order = number.argsort(stable=True)
        _, sizes = torch.unique_consecutive(number[order], return_counts=True)
        starts = sizes.cumsum(0) - sizes
        if (sequences == 0).any():
            sizes, starts = sizes[1:], starts[1:]
        return cls(
            tuple(
                order[starts[sizes == size][:, None] + torch.arange(size, device=sequences.device)]
                for size in sizes.unique().tolist()
            )
        )

    def within(self, reach: int, length: int) -> Packing:
        """The same for layers that see only `reach` tokens to either side, in rows of `length`.

        Distances are counted in the row, so where padding stands among a sequence's tokens it counts as well.
        """
        return Packing(self.groups, tuple(_near(group % length, reach) for group in self.groups))


def _near(at: Tensor, reach: int) -> Tensor | None:
    """places [sequences, length] in their rows -> [sequences or 1, 1, length, length], or None where all is near."""
    span = at[:, -1] - at[:, 0]
    if int(span.max()) <= reach:
        return None
    unbroken = int(span.max()) == at.shape[1] - 1
    return masks.near(at[:1] if unbroken else at, reach)


@dataclass(frozen=True)
class Sight:
    """What attention needs to know beside the vectors. Everything is optional.

    mask     [batch or 1, heads or 1, queries or 1, keys] booleans, True = may look (see `masks`)
    bias     [batch or 1, heads, queries, keys] added to the scores (see `positions.RelativePositions`)
    packing  where sequences lie in packed rows; read by the packed way alone
    maps     return the attention probabilities too (this takes the eager way)
    rotation how far queries and keys are turned at each position (see `rotary`)
    """

    mask: Tensor | None = None
    bias: Tensor | None = None
    packing: Packing | None = None
    maps: bool = False
    rotation: Rotation | None = None

    def within(self, reach: int, length: int, device: torch.device) -> Sight:
        """The same, of `reach` tokens to either side. Made once for all layers that see as far."""
        if self.packing is not None:
            return replace(self, packing=self.packing.within(reach, length))
        window = masks.window(length, reach, device)
        if window is None:
            return self
        return replace(self, mask=window if self.mask is None else self.mask & window)


Attended = tuple[Tensor, Tensor | None]


def eager(query: Tensor, key: Tensor, value: Tensor, sight: Sight, drop: Dropout | None = None) -> Attended:
    """query, key, value [batch, heads, length, depth] -> the same shape, and maps [batch, heads, length, length].

    A query that may look at nothing gets zeros, as in the fused way.
    """
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    if sight.bias is not None:
        scores = scores + sight.bias
    if sight.mask is not None:
        scores = scores.masked_fill(~sight.mask, torch.finfo(scores.dtype).min)
    maps = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    if sight.mask is not None:
        maps = maps.masked_fill(~sight.mask, 0.0)
    return (drop(maps) if drop else maps) @ value, maps


def fused(query: Tensor, key: Tensor, value: Tensor, sight: Sight, drop: Dropout | None = None) -> Attended:
    """query, key, value [batch, heads, length, depth] -> the same shape; no maps."""
    rate = drop.active if drop else 0.0
    if query.device.type == "cpu" and (rate or query.shape[2] <= BATCHED.get(query.dtype, 0)):
        return batched(query, key, value, sight, drop), None
    mask = sight.mask
    if sight.bias is not None:
        bias = sight.bias.to(query.dtype)
        mask = bias if mask is None else bias.masked_fill(~mask, float("-inf"))
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate), None


# Up to which length a few batched products beat PyTorch's kernel on a CPU, there and back up to five times (see
# bench/LOG.md). With dropout it has no kernel for a CPU at all.
BATCHED = {torch.bfloat16: 1024, torch.float32: 128}


def batched(query: Tensor, key: Tensor, value: Tensor, sight: Sight, drop: Dropout | None = None) -> Tensor:
    """query, key, value [batch, heads, length, depth] -> the same shape, with few passes over the scores."""
    batch, heads, length, depth = query.shape
    query, key, value = (x.reshape(-1, length, depth) for x in (query * depth**-0.5, key, value))
    added = _added(sight, batch, heads, query.dtype)
    scores = torch.bmm(query, key.mT) if added is None else torch.baddbmm(added, query, key.mT)
    maps = scores.softmax(-1)
    if drop is not None and drop.active:
        maps = drop(maps.view(batch, heads, length, length)).view(-1, length, length)
    out = torch.bmm(maps, value).view(batch, heads, length, depth)
    if sight.mask is None:
        return out
    return out.masked_fill(~sight.mask.any(-1, keepdim=True), 0.0)  # a query that may look at nothing gets zeros


def _added(sight: Sight, batch: int, heads: int, dtype: torch.dtype) -> Tensor | None:
    """What is added to the scores [batch · heads, queries, keys]: the bias, and nearly minus infinity where a mask is
    False (not wholly, or a query that may look at nothing would get NaN).
    """
    added = None if sight.bias is None else sight.bias.to(dtype)
    if sight.mask is not None:
        nothing = torch.zeros((), dtype=dtype, device=sight.mask.device) if added is None else added
        added = torch.where(sight.mask, nothing, torch.finfo(dtype).min / 2)
    if added is None:
        return None
    if added.shape[:2] == (1, 1):
        return added[0, 0]
    return added.expand(batch, heads, -1, -1).reshape(batch * heads, *added.shape[2:])


def packed(query: Tensor, key: Tensor, value: Tensor, sight: Sight, drop: Dropout | None = None) -> Attended:
    """query, key, value [batch, heads, length, depth] -> the same shape, zeros on padding; no maps.

    Sequences of equal length go through one fused call. A mask or bias, where given, holds within sequences.
    """
    if sight.packing is None:
        return fused(query, key, value, sight, drop)
    batch, heads, length, depth = query.shape

    def flat(x: Tensor) -> Tensor:
        return x.transpose(1, 2).reshape(batch * length, heads, depth)

    query, key, value = flat(query), flat(key), flat(value)
    out = torch.zeros_like(query)
    for group, near in zip_longest(sight.packing.groups, sight.packing.masks):
        mask = _within(sight.mask, group, length)
        if near is not None:
            mask = near if mask is None else mask & near
        within = Sight(mask, _within(sight.bias, group, length))
        q, k, v = (x[group].transpose(1, 2) for x in (query, key, value))
        part, _ = fused(q, k, v, within, drop)
        out = out.index_put((group,), part.transpose(1, 2))
    return out.view(batch, length, heads, depth).transpose(1, 2), None


def _within(square: Tensor | None, group: Tensor, length: int) -> Tensor | None:
    """The part of a mask or bias [batch or 1, heads or 1, queries or 1, keys] that each sequence of a group sees."""
    if square is None:
        return None
    row, at = group[:, 0] // length, group % length
    square = square.expand(-1, -1, length, length)
    row = torch.zeros_like(row) if square.shape[0] == 1 else row
    return square[row[:, None, None], :, at[:, :, None], at[:, None, :]].permute(0, 3, 1, 2)


Way = Callable[[Tensor, Tensor, Tensor, Sight, Dropout | None], Attended]
WAYS: dict[str, Way] = {"eager": eager, "fused": fused, "packed": packed}


class Attention(nn.Module):
    """Multi-head self-attention: [batch, length, width] -> [batch, length, width], and the maps or None.

    >>> layer = Attention(width=8, heads=2).eval()
    >>> out, maps = layer(torch.randn(1, 5, 8), Sight(maps=True))
    >>> out.shape, maps.shape
    (torch.Size([1, 5, 8]), torch.Size([1, 2, 5, 5]))
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        way: str = "fused",
        bias: bool = True,
        out_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ConfigError(
                f"{heads} attention heads do not divide the width {width}",
                "choose hidden_size as a multiple of heads",
            )
        if way not in WAYS:
            raise ConfigError(f"unknown way of attention {way!r}", nearest(way, WAYS) or f"known: {', '.join(WAYS)}")
        self.heads, self.way = heads, way
        self.dropout = Dropout(dropout)
        self.query = nn.Linear(width, width, bias)
        self.key = nn.Linear(width, width, bias)
        self.value = nn.Linear(width, width, bias)
        self.out = nn.Linear(width, width, bias)
        self.out_dropout = Dropout(out_dropout)
        self._joined: tuple[Tensor, Tensor | None] | None = None

    def forward(self, x: Tensor, sight: Sight | None = None) -> Attended:
        sight = sight or Sight()
        batch, length, width = x.shape
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self._project(x))
        if sight.rotation is not None:
            query, key = sight.rotation.turn(query), sight.rotation.turn(key)
        attend = eager if sight.maps else WAYS[self.way]
        y, maps = attend(query, key, value, sight, self.dropout)
        return self.out_dropout(self.out(y.transpose(1, 2).reshape(batch, length, width))), maps

    def _project(self, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values, each [batch, length, width]."""
        if self._joined is not None and not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            weight, bias = self._joined
            if weight.data_ptr() == self.query.weight.data_ptr():  # else a copy was made, or a weight replaced
                return F.linear(x, weight, bias).chunk(3, dim=-1)
        return self.query(x), self.key(x), self.value(x)

    def join(self, dtype: torch.dtype | None = None) -> None:
        """Lay the three projections side by side in memory (converting on the way), for inference.

        Without gradients one product then does for three: up to twice as fast on short inputs in bf16. The
        parameters stay what they were, now views of the joint tensor, so saving and training go on as before.
        """
        parts = (self.query, self.key, self.value)
        with torch.no_grad():
            joined: list[Tensor | None] = [None, None]
            for at, name in enumerate(("weight", "bias")):
                tensors = [getattr(part, name) for part in parts]
                if tensors[0] is None:
                    continue
                sizes = [len(tensor) for tensor in tensors]
                whole = tensors[0].new_empty((sum(sizes), *tensors[0].shape[1:]), dtype=dtype or tensors[0].dtype)
                for part, tensor, view in zip(parts, tensors, whole.split(sizes), strict=True):
                    view.copy_(tensor)
                    setattr(part, name, nn.Parameter(view, requires_grad=tensor.requires_grad))
                joined[at] = whole
        weight, bias = joined
        self._joined = None if weight is None else (weight, bias)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moving or converting a module gives its parameters new memory, apart again."""
        joined, self._joined = self._joined, None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if joined is not None:
            self.join()
        return self

    def _load_from_state_dict(self, *args: Any) -> None:
        self._joined = None
        super()._load_from_state_dict(*args)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, way={self.way}"
