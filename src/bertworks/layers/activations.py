"""The activations published models use. Two spellings of GELU exist and differ by up to 1e-3: keep them apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor
from torch.nn import functional as F

from bertworks.errors import ConfigError, nearest

Activation = Callable[[Tensor], Tensor]

ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "gelu": F.gelu,  # x·Φ(x) by erf: BERT and RoBERTa as published in PyTorch
    "gelu-tanh": partial(F.gelu, approximate="tanh"),  # the tanh formula: ALBERT, GPT
    "silu": F.silu,
}


def activation(name: str) -> Activation:
    """The function called `name`.

    >>> import torch
    >>> activation("relu")(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if name not in ACTIVATIONS:
        raise ConfigError(
            f"unknown activation {name!r}", nearest(name, ACTIVATIONS) or f"known: {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]
