"""Two scores for a pair of segments: does B follow A (BERT), or are they in order (ALBERT)?"""

from __future__ import annotations

from torch import Tensor, nn

from bertworks.layers.dropout import Dropout


class Pair(nn.Module):
    """[batch, width] pooled -> [batch, 2]; score 0 is "follows" / "in order", as published.

    >>> import torch
    >>> Pair(width=8)(torch.randn(3, 8)).shape
    torch.Size([3, 2])
    """

    wants_pooled = True

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.scores = nn.Linear(width, 2)

    def forward(self, pooled: Tensor) -> Tensor:
        return self.scores(self.dropout(pooled))  # type: ignore[no-any-return]
