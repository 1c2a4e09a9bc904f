"""A score per label for the whole text."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertworks.layers.dropout import Dropout


class PooledClassifier(nn.Module):
    """[batch, width] from BERT's pooler -> [batch, labels]: BERT, ALBERT.

    >>> PooledClassifier(width=8, labels=3)(torch.randn(2, 8)).shape
    torch.Size([2, 3])
    """

    wants_pooled = True

    def __init__(self, width: int, labels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.scores = nn.Linear(width, labels)

    def forward(self, pooled: Tensor) -> Tensor:
        return self.scores(self.dropout(pooled))  # type: ignore[no-any-return]


class DenseClassifier(nn.Module):
    """[batch, length, width] -> [batch, labels] by a dense layer of its own over the first token: RoBERTa.

    >>> DenseClassifier(width=8, labels=3)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 3])
    """

    def __init__(self, width: int, labels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.dense = nn.Linear(width, width)
        self.scores = nn.Linear(width, labels)

    def forward(self, last: Tensor) -> Tensor:
        x = torch.tanh(self.dense(self.dropout(last[:, 0])))
        return self.scores(self.dropout(x))  # type: ignore[no-any-return]
