"""Where an answer begins and ends in its context."""

from __future__ import annotations

from torch import Tensor, nn


class Span(nn.Module):
    """[batch, length, width] -> [batch, length, 2]: start scores, end scores.

    >>> import torch
    >>> Span(width=8)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 2])
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scores = nn.Linear(width, 2)

    def forward(self, last: Tensor) -> Tensor:
        return self.scores(last)  # type: ignore[no-any-return]
