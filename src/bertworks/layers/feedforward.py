"""The position-wise network: each vector widened, bent and narrowed, alone."""

from __future__ import annotations

from torch import Tensor, nn

from . import activations
from .dropout import Dropout


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


class GatedFeedForward(FeedForward):
    """The same with a gate (Shazeer, 2020): `up` makes two vectors of `inner`, one bent, the other multiplied with it.

    With the activation gelu it is called GeGLU, with silu SwiGLU.

    >>> import torch
    >>> GatedFeedForward(width=8, inner=12, bias=False)(torch.randn(1, 5, 8)).shape
    torch.Size([1, 5, 8])
    """

    def __init__(
        self, width: int, inner: int, activation: str = "gelu", bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__(width, inner, activation)
        self.up = nn.Linear(width, 2 * inner, bias)
        self.down = nn.Linear(inner, width, bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        bent, gate = self.up(x).chunk(2, dim=-1)
        return self.down(self.dropout(self._bend(bent) * gate))  # type: ignore[no-any-return]
