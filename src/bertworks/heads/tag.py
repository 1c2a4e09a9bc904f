"""A score per label for each token: names, parts of speech, chunks."""

from __future__ import annotations

from torch import Tensor, nn

from bertworks.layers.dropout import Dropout


class Tag(nn.Module):
    """[batch, length, width] -> [batch, length, labels].

    >>> import torch
    >>> Tag(width=8, labels=9)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 9])
    """

    def __init__(self, width: int, labels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.scores = nn.Linear(width, labels)

    def forward(self, last: Tensor) -> Tensor:
        return self.scores(self.dropout(last))  # type: ignore[no-any-return]
