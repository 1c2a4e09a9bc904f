"""The position-wise network: each vector widened, bent and narrowed, alone."""

from __future__ import annotations

from torch import Tensor, nn

from . import activations


class FeedForward(nn.Module):
    """[…, width] -> […, width] by way of […, inner].

    >>> import torch
    >>> FeedForward(width=8, inner=32, activation="relu")(torch.randn(1, 5, 8)).shape
    torch.Size([1, 5, 8])
    """

    def __init__(self, width: int, inner: int, activation: str = "gelu") -> None:
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.down = nn.Linear(inner, width)
        self.activation = activation
        self._bend = activations.activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self._bend(self.up(x)))  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"activation={self.activation}"
