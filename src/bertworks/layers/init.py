"""First values of weights. Randomness is an argument: pass a generator to repeat a draw."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.overrides import TorchFunctionMode

from bertworks.errors import ConfigError, nearest

Initialiser = Callable[..., Tensor]


def _truncated_normal(weight: Tensor, std: float, generator: Generator | None = None) -> Tensor:
    """Normal draws, redrawn until within two standard deviations, as TensorFlow's initialiser does."""
    return nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std, generator=generator)


def _normal(weight: Tensor, std: float, generator: Generator | None = None) -> Tensor:
    return nn.init.normal_(weight, std=std, generator=generator)


def _uniform(weight: Tensor, std: float, generator: Generator | None = None) -> Tensor:
    """Uniform with the given standard deviation: between ±√3·std."""
    return nn.init.uniform_(weight, -(3**0.5) * std, 3**0.5 * std, generator=generator)


INITIALISERS: dict[str, Initialiser] = {
    "normal": _normal,
    "truncated-normal": _truncated_normal,
    "uniform": _uniform,
}


@torch.no_grad()
def initialise(module: nn.Module, name: str = "normal", std: float = 0.02, generator: Generator | None = None) -> None:
    """Fill every weight below `module` as BERT does: matrices drawn, biases 0, norms 1 and 0, padding rows 0.

    A layer with a `draw_scale` is drawn wider or narrower by that (see `scaled`).

    >>> layer = nn.Linear(4, 4)
    >>> initialise(layer, "truncated-normal", std=0.02, generator=torch.Generator().manual_seed(1))
    >>> bool(layer.weight.abs().max() <= 0.04), float(layer.bias.detach().sum())
    (True, 0.0)
    """
    if name not in INITIALISERS:
        raise ConfigError(
            f"unknown initialiser {name!r}",
            nearest(name, INITIALISERS) or f"known: {', '.join(INITIALISERS)}",
        )
    draw = partial(INITIALISERS[name], generator=generator)
    given = {id(part.weight) for part in module.modules() if getattr(part, "given", False)}
    for part in module.modules():
        for key, weight in part.named_parameters(recurse=False):
            if id(weight) in given:
                continue  # a matrix that a person gave stays as given
            if isinstance(part, nn.LayerNorm):
                nn.init.constant_(weight, 1.0 if key == "weight" else 0.0)
            elif weight.ndim < 2:
                nn.init.zeros_(weight)
            else:
                draw(weight, std * getattr(part, "draw_scale", 1.0))
        if isinstance(part, nn.Embedding) and part.padding_idx is not None and id(part.weight) not in given:
            part.weight[part.padding_idx].zero_()


def scaled(layer: nn.Linear, scale: float) -> None:
    """Have a layer's first values drawn `scale` times as wide as the others'.

    >>> layer = nn.Linear(200, 200)
    >>> scaled(layer, 0.5)
    >>> initialise(layer, "normal", std=0.02, generator=torch.Generator().manual_seed(1))
    >>> round(float(layer.weight.detach().std()), 3)
    0.01
    """
    layer.draw_scale = scale  # type: ignore[assignment]


class Unfilled(TorchFunctionMode):
    """Build modules without drawing first values, for weights that come from a file: memory is reserved, not touched.

    (Building on PyTorch's meta device does the same, but its first use in a process costs a second of imports.)

    >>> with Unfilled():
    ...     layer = nn.Linear(1000, 1000)
    """

    SKIPPED = frozenset({"fill_", "zero_", "normal_", "uniform_"})

    def __torch_function__(
        self, func: Callable[..., Any], _: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init" or getattr(func, "__name__", "") in self.SKIPPED:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
