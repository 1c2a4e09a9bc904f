"""Scores behind a dense layer, an activation and a norm, as a masked-LM decoder has: ModernBERT's way for all tasks."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from bertworks.layers import activations
from bertworks.layers.dropout import Dropout

from .pool import first

Pooling = Callable[[Tensor, Tensor], Tensor]


class Transform(nn.Module):
    """[…, width] -> […, width].

    >>> Transform(width=8)(torch.randn(2, 8)).shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        width: int,
        activation: str = "gelu",
        norm_eps: float = 1e-5,
        bias: bool = False,
        norm_bias: bool = False,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width, bias)
        self.activation = activation
        self._bend = activations.activation(activation)
        self.norm = nn.LayerNorm(width, eps=norm_eps, bias=norm_bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self._bend(self.dense(x)))  # type: ignore[no-any-return]


class TokenScores(nn.Module):
    """[batch, length, width] -> [batch, length, scores]: a score per label, or of the start and the end of an answer.

    >>> TokenScores(Transform(width=8), scores=9)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 9])
    """

    def __init__(self, transform: Transform, scores: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.transform = transform
        self.dropout = Dropout(dropout)
        self.scores = nn.Linear(transform.dense.out_features, scores)

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(self.dropout(self.transform(x)))  # type: ignore[no-any-return]


class TextScores(TokenScores):
    """[batch, length, width] -> [batch, scores], from one vector per text (see `pool`).

    real [batch, length] are False on padding; without it all are real.

    >>> TextScores(Transform(width=8), scores=3)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 3])
    """

    wants_real = True

    def __init__(self, transform: Transform, scores: int, dropout: float = 0.0, pooling: Pooling = first) -> None:
        super().__init__(transform, scores, dropout)
        self.pooling = pooling

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if real is None else real
        return super().forward(self.pooling(x, real))
