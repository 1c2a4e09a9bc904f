"""The errors a person can do something about. Each says what is wrong and what to do next."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable
from itertools import takewhile


class BertworksError(Exception):
    """Wrong input, in one or two lines: what is wrong (naming file, line or key) and the way out."""

    def __init__(self, message: str, way_out: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.way_out = way_out

    def __str__(self) -> str:
        return f"{self.message}\n{self.way_out}" if self.way_out else self.message


class ConfigError(BertworksError):
    """A configuration that names something unknown or does not add up."""


class WeightsError(BertworksError):
    """A tensor file that is torn, incomplete, misshapen or not finite."""


class UnsafeFileError(BertworksError):
    """A file that would run code, reach outside its folder or unpack without end."""


class InputError(BertworksError):
    """A text, an id or a data file that the model cannot take."""


class CannotWriteError(InputError):
    """A place that cannot be written: full, forbidden, or taken meanwhile."""


class BertworksWarning(UserWarning):
    """Something done on the reader's behalf that they should know of, in one line."""


def tell(message: str) -> None:
    """Say one line to whoever is using us: the command line prints it, Python shows it as a warning."""
    warnings.warn(message, BertworksWarning, stacklevel=3)


def nearest(name: str, known: Iterable[str]) -> str:
    """`did you mean 'x'?` for the nearest known name, or an empty string. A shared beginning counts as nearness."""

    def likeness(other: str) -> float:
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False)))
        start = alike / max(len(name), len(other), 1)
        return difflib.SequenceMatcher(None, name, other).ratio() + 0.5 * start

    best = max(known, key=likeness, default="")
    return f"did you mean {best!r}?" if best and likeness(best) >= 0.6 else ""
