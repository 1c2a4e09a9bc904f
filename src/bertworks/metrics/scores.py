"""The one shape that every evaluation has."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

Interval = tuple[float, float]


@dataclass(frozen=True)
class Scores:
    """metrics: a figure by name; intervals: 95 % intervals of those that have one; examples: how many were scored.

    baselines: what guessing reaches, by the guesser's name (`chance`, `majority`, ...), in the same figures.
    details: what a report draws: `labels`, `confusion` (gold by predicted), `classes`, `bins`, `points`.
    remarks: a line for each figure that is not defined on this data, and why.
    """

    metrics: dict[str, float]
    intervals: dict[str, Interval] = field(default_factory=dict)
    examples: int = 0
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def json(self) -> dict[str, Any]:
        """What `evaluate --json` prints; a figure that is not defined is null, since JSON has no NaN."""
        return {
            "metrics": plain(self.metrics),
            "intervals": plain(self.intervals),
            "examples": self.examples,
            "baselines": plain(self.baselines),
            "remarks": list(self.remarks),
        }


def plain(value: Any) -> Any:
    """The same in JSON's own types: NumPy's numbers as Python's, NaN and infinity as null."""
    if isinstance(value, dict):
        return {plain(str(key)): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")  # half a surrogate cannot be written
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
