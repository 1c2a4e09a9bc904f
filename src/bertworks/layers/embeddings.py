"""Ids to vectors: token + segment + position, normed and dropped out; plain or factorised; drawn or given."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertworks.errors import ConfigError, InputError

from .dropout import Dropout
from .positions import LearnedPositions, SinusoidalPositions


class Embeddings(nn.Module):
    """ids [batch, length], segments the same, positions [batch or 1, length] -> [batch, length, width].

    With `width` other than `size`, the sum is made at `size` and projected (ALBERT's factorised embeddings).
    Without segments given, every token is in segment 0.

    >>> part = Embeddings(vocab_size=100, size=4, positions=LearnedPositions(16, 4), segments=2, width=8)
    >>> part(torch.tensor([[5, 6, 7]]), positions=torch.arange(3)[None]).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        vocab_size: int,
        size: int,
        positions: LearnedPositions | SinusoidalPositions | None = None,
        segments: int = 0,
        width: int | None = None,
        pad_id: int | None = 0,
        norm_eps: float = 1e-12,
        dropout: float = 0.0,
        norm_bias: bool = True,
    ) -> None:
        super().__init__()
        if pad_id is not None and not 0 <= pad_id < vocab_size:
            raise ConfigError(
                f"the padding id {pad_id} is not in a vocabulary of {vocab_size}",
                "set pad_token_id within it",
            )
        self.tokens = nn.Embedding(vocab_size, size, padding_idx=pad_id)
        self.positions = positions
        self.segments = nn.Embedding(segments, size) if segments else None
        self.norm = nn.LayerNorm(size, eps=norm_eps, bias=norm_bias)
        self.dropout = Dropout(dropout)
        self.projection = nn.Linear(size, width) if width is not None else None

    def forward(self, ids: Tensor, segments: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        if ids.device.type == "cpu" and not torch.compiler.is_compiling():
            self._check(ids, segments, positions)
        x = self.tokens(ids)
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        if self.positions is not None and positions is not None:
            x = x + self.positions(positions)
        x = self.dropout(self.norm(x))
        return x if self.projection is None else self.projection(x)  # type: ignore[no-any-return]

    def _check(self, ids: Tensor, segments: Tensor | None, positions: Tensor | None) -> None:
        """Name what is out of range; indexing would only say that something was."""
        sizes = [("token id", ids, self.tokens.num_embeddings, "use the tokenizer that belongs to the model")]
        if self.segments is not None and segments is not None:
            sizes.append(("segment", segments, self.segments.num_embeddings, "segments count from 0"))
        if self.positions is not None and positions is not None:
            sizes.append(("position", positions, self.positions.num_embeddings, "cut the text, or use windows"))
        for name, values, size, way_out in sizes:
            if values.numel() and not 0 <= (low := int(values.min())) <= (high := int(values.max())) < size:
                wrong = low if low < 0 else high
                raise InputError(f"{name} {wrong} is outside the model's {size} (0 to {size - 1})", way_out)


def give(embedding: nn.Embedding, matrix: Tensor, freeze: bool = False) -> None:
    """Put a ready matrix [rows, size] into an embedding, which keeps it through initialisation; freeze it if asked.

    >>> part = nn.Embedding(3, 2)
    >>> give(part, torch.ones(3, 2), freeze=True)
    >>> part.weight.requires_grad, float(part.weight.sum())
    (False, 6.0)
    """
    if matrix.shape != embedding.weight.shape:
        raise ConfigError(
            f"the given matrix is {tuple(matrix.shape)}, the embedding {tuple(embedding.weight.shape)}",
            "give one row per token of the vocabulary, as wide as the embedding",
        )
    with torch.no_grad():
        embedding.weight.copy_(matrix)
    embedding.weight.requires_grad_(not freeze)
    embedding.given = True  # type: ignore[assignment]
