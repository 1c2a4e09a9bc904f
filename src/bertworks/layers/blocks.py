"""One Transformer layer: attention and feed-forward, each with a residual and a norm after it or before it."""

from __future__ import annotations

from torch import Tensor, nn

from .attention import Attended, Attention, Sight
from .dropout import Dropout
from .feedforward import FeedForward


class Block(nn.Module):
    """The parts of a layer; a subclass says where the norms stand. Pass the two sub-layers ready made.

    [batch, length, width] -> [batch, length, width], and the attention maps or None.
    """

    attention_norm: nn.Module

    def __init__(
        self,
        attention: Attention,
        feedforward: FeedForward,
        norm_eps: float = 1e-12,
        dropout: float = 0.0,
        norm_bias: bool = True,
    ) -> None:
        super().__init__()
        width = attention.out.out_features
        self.attention = attention
        self.attention_norm = nn.LayerNorm(width, eps=norm_eps, bias=norm_bias)
        self.feedforward = feedforward
        self.feedforward_norm = nn.LayerNorm(width, eps=norm_eps, bias=norm_bias)
        self.dropout = Dropout(dropout)


class PostNormBlock(Block):
    """Norm after each residual sum: the Transformer as published, BERT, RoBERTa, ALBERT.

    >>> import torch
    >>> block = PostNormBlock(Attention(8, heads=2), FeedForward(8, inner=32))
    >>> block(torch.randn(1, 5, 8))[0].shape
    torch.Size([1, 5, 8])
    """

    def forward(self, x: Tensor, sight: Sight | None = None) -> Attended:
        attended, maps = self.attention(x, sight)
        x = self.attention_norm(x + self.dropout(attended))
        return self.feedforward_norm(x + self.dropout(self.feedforward(x))), maps


class PreNormBlock(Block):
    """Norm before each sub-layer, so the residual path runs through untouched; end the stack with a norm.

    >>> import torch
    >>> block = PreNormBlock(Attention(8, heads=2), FeedForward(8, inner=32, activation="silu"))
    >>> block(torch.randn(1, 5, 8))[0].shape
    torch.Size([1, 5, 8])
    """

    def forward(self, x: Tensor, sight: Sight | None = None) -> Attended:
        attended, maps = self.attention(self.attention_norm(x), sight)
        x = x + self.dropout(attended)
        return x + self.dropout(self.feedforward(self.feedforward_norm(x))), maps
