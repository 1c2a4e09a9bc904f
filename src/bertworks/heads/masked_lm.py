"""The masked-language-model head: vectors to scores over the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertworks.layers import activations


class MaskedLM(nn.Module):
    """[…, width] -> […, vocabulary]: transform (dense, activation, norm), then the embedding table as decoder.

    The tied decoder is the table handed to `forward`, so tying is visible where the model is wired and cannot be
    undone by loading. An untied head owns its `decoder` instead. Hand in chosen positions alone
    to spare the arithmetic of the rest.

    >>> table = torch.randn(100, 4)
    >>> MaskedLM(width=8, size=4, vocab_size=100)(torch.randn(3, 8), table).shape
    torch.Size([3, 100])
    """

    def __init__(
        self,
        width: int,
        size: int,
        vocab_size: int,
        activation: str = "gelu",
        norm_eps: float = 1e-12,
        tied: bool = True,
        dense_bias: bool = True,
        norm_bias: bool = True,
        decoder_bias: bool = True,
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(width, size, dense_bias)
        self.activation = activation
        self._bend = activations.activation(activation)
        self.norm = nn.LayerNorm(size, eps=norm_eps, bias=norm_bias)
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if decoder_bias else None
        self.decoder = None if tied else nn.Parameter(torch.empty(vocab_size, size))

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        x = self.norm(self._bend(self.dense(x)))
        return F.linear(x, table if self.decoder is None else self.decoder, self.bias)
