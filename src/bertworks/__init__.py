"""From raw text to a served encoder language model of your own.

>>> import bertworks
>>> model = bertworks.load("path/to/model")                 # doctest: +SKIP
>>> model.fill("Paris is the [MASK] of France.")            # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["BertworksError", "Guess", "Predictor", "Vectors", "__version__", "load"]

if TYPE_CHECKING:
    from .errors import BertworksError
    from .runtime.predictor import Guess, Predictor, Vectors, load

# Where each public name lives; imported when it is first asked for, so that `import bertworks` costs nothing.
_HOMES = {
    "BertworksError": "errors",
    "Guess": "runtime.predictor",
    "Predictor": "runtime.predictor",
    "Vectors": "runtime.predictor",
    "load": "runtime.predictor",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bertworks' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
