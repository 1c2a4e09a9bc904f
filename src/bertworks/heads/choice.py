"""One score per candidate; the highest of a question's candidates is the answer."""

from __future__ import annotations

from torch import Tensor, nn

from bertworks.layers.dropout import Dropout


class Choice(nn.Module):
    """[candidates, width] pooled -> [candidates, 1]; group them by question afterwards.

    >>> import torch
    >>> Choice(width=8)(torch.randn(6, 8)).view(2, 3).shape
    torch.Size([2, 3])
    """

    wants_pooled = True

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.scores = nn.Linear(width, 1)

    def forward(self, pooled: Tensor) -> Tensor:
        return self.scores(self.dropout(pooled))  # type: ignore[no-any-return]
