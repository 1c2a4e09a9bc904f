"""Where a token stands: vectors added to embeddings (learned, sinusoidal), or a bias added to attention scores.

BERT, RoBERTa and ALBERT add *learned absolute* positions to the embeddings; nothing relative happens inside
their attention, whatever some study notes say. The relative bias here is T5's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def counted(ids: Tensor, sequences: Tensor | None = None) -> Tensor:
    """[batch, length] -> [1, length]: 0, 1, 2, … whatever the tokens are (BERT, ALBERT).

    In packed rows, [batch, length], they restart with every sequence.
    """
    if sequences is not None:
        return restarting(sequences)
    return torch.arange(ids.shape[1], device=ids.device)[None]


def after_padding(ids: Tensor, sequences: Tensor | None = None, pad_id: int = 1) -> Tensor:
    """[batch, length] -> [batch, length]: pad_id+1, pad_id+2, … over real tokens, pad_id on padding (RoBERTa).

    >>> after_padding(torch.tensor([[7, 8, 1, 1]]), pad_id=1)
    tensor([[2, 3, 1, 1]])
    """
    real = (ids != pad_id).long()
    count = real.cumsum(1)
    if sequences is not None:
        begins = _begins(sequences)
        count = count - torch.where(begins, count - real, 0).cummax(1).values
    return count * real + pad_id


def restarting(sequences: Tensor) -> Tensor:
    """[batch, length] sequence numbers of packed rows -> positions that begin anew with every sequence.

    >>> restarting(torch.tensor([[1, 1, 1, 2, 2, 0]]))
    tensor([[0, 1, 2, 0, 1, 0]])
    """
    at = torch.arange(sequences.shape[1], device=sequences.device).expand_as(sequences)
    return at - torch.where(_begins(sequences), at, 0).cummax(1).values


def _begins(sequences: Tensor) -> Tensor:
    """Where a sequence's first token stands."""
    begins = torch.ones_like(sequences, dtype=torch.bool)
    begins[:, 1:] = sequences[:, 1:] != sequences[:, :-1]
    return begins


class LearnedPositions(nn.Embedding):
    """One trained vector per position: [batch, length] positions -> [batch, length, width]."""

    def __init__(self, length: int, width: int, padding_idx: int | None = None) -> None:
        super().__init__(length, width, padding_idx=padding_idx)


class SinusoidalPositions(nn.Module):
    """The fixed waves of "Attention is all you need": even columns sine, odd columns cosine.

    >>> SinusoidalPositions(4, 6)(torch.tensor([[0, 1]])).shape
    torch.Size([1, 2, 6])
    """

    table: Tensor

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        angles = torch.arange(length)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        table = torch.zeros(length, width)
        table[:, 0::2] = angles.sin()
        table[:, 1::2] = angles.cos()[:, : width // 2]
        self.register_buffer("table", table, persistent=False)

    @property
    def num_embeddings(self) -> int:
        return self.table.shape[0]

    def forward(self, positions: Tensor) -> Tensor:
        """[batch, length] -> [batch, length, width]."""
        return self.table[positions]


class RelativePositions(nn.Module):
    """T5's bias: one trained number per head and bucket of distance, added to the attention scores.

    Near distances have a bucket each, far ones share buckets that widen logarithmically up to `furthest`.

    >>> RelativePositions(heads=2)(torch.arange(5)[None]).shape
    torch.Size([1, 2, 5, 5])
    """

    def __init__(self, heads: int, buckets: int = 32, furthest: int = 128, both_directions: bool = True) -> None:
        super().__init__()
        self.buckets, self.furthest, self.both_directions = buckets, furthest, both_directions
        self.bias = nn.Embedding(buckets, heads)

    def bucket(self, distance: Tensor) -> Tensor:
        """Distances (key position minus query position), any shape -> bucket numbers, same shape."""
        buckets, first = self.buckets, torch.zeros_like(distance)
        if self.both_directions:
            buckets //= 2
            first = (distance > 0).long() * buckets
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = buckets // 2
        ratio = distance.clamp(min=1).float().div(exact).log() / math.log(self.furthest / exact)
        shared = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
        return first + torch.where(distance < exact, distance, shared)

    def forward(self, positions: Tensor) -> Tensor:
        """[batch or 1, length] positions -> [batch or 1, heads, length, length] to add to scores."""
        distance = positions[:, None, :] - positions[:, :, None]
        return self.bias(self.bucket(distance)).permute(0, 3, 1, 2)  # type: ignore[no-any-return]
