"""What a report holds, and how its figures are called and written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from bertworks.metrics.scores import Scores, plain

NAMES = {
    "accuracy": "Accuracy",
    "f1": "F1",
    "f1_micro": "F1, micro",
    "f1_macro": "F1, macro",
    "f1_weighted": "F1, weighted",
    "f1_samples": "F1, per text",
    "precision": "Precision",
    "recall": "Recall",
    "precision_macro": "Precision, macro",
    "recall_macro": "Recall, macro",
    "matthews": "Matthews",
    "auc": "AUC",
    "log_loss": "Log loss",
    "brier": "Brier",
    "calibration_error": "Calibration error",
    "calibration_error_adaptive": "Calibration error, adaptive",
    "token_accuracy": "Token accuracy",
    "exact": "Exact match",
    "has_answer_exact": "Exact match, has answer",
    "has_answer_f1": "F1, has answer",
    "no_answer_exact": "Exact match, no answer",
    "no_answer_f1": "F1, no answer",
    "best_exact": "Best exact match",
    "best_exact_threshold": "… at the threshold",
    "best_f1": "Best F1",
    "best_f1_threshold": "… at the threshold",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "kendall": "Kendall",
    "mse": "Squared error",
    "rmse": "Root of squared error",
    "mae": "Absolute error",
    "mrr": "Reciprocal rank",
    "ndcg@10": "nDCG@10",
}
# What a reader looks for first.
HEADLINES = ("accuracy", "f1", "spearman", "mrr", "f1_macro")
# Not shares: drawn without a scale from 0 to 1.
UNBOUNDED = frozenset({"log_loss", "mse", "rmse", "mae", "best_exact_threshold", "best_f1_threshold"})
TASK_HEADLINES = {"regress": "spearman", "embed": "spearman", "tag": "f1", "answer": "f1"}


@dataclass(frozen=True)
class Span:
    """Characters start to end (exclusive) of a mistake's text: what gold marks, or what was predicted."""

    start: int
    end: int
    whose: Literal["gold", "predicted"]
    label: str = ""


@dataclass(frozen=True)
class Mistake:
    """One wrong answer. probability: how sure the model was; line: where the text stands in its file."""

    text: str
    gold: str
    predicted: str
    probability: float | None = None
    line: int | None = None
    text_b: str = ""
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True)
class Report:
    """sizes: rows by name (train, dev); curve: by series, (step, value) points; command: what makes these figures
    again; mistakes: the worst first."""

    task: str
    model: str
    scores: Scores
    data: str = ""
    command: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()
    curve: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The name of the figure that comes first; empty where there is none."""
        metrics = self.scores.metrics
        wanted = (TASK_HEADLINES.get(self.task, ""), *HEADLINES, *metrics)
        return next((name for name in wanted if name in metrics), "")

    @property
    def every_remark(self) -> tuple[str, ...]:
        return (*self.scores.remarks, *self.remarks)


def to_json(report: Report) -> dict[str, Any]:
    """Everything in a report, in JSON's own types."""
    whole: dict[str, Any] = plain(
        {
            "task": report.task,
            "model": report.model,
            "data": report.data,
            "command": report.command,
            "sizes": dict(report.sizes),
            **report.scores.json(),
            "remarks": report.every_remark,
            **report.scores.details,
            "mistakes": [asdict(one) for one in report.mistakes],
            "curve": {name: list(points) for name, points in report.curve.items()},
        }
    )
    return whole


def called(name: str) -> str:
    """A figure's name for a person."""
    return NAMES.get(name, name.replace("_", " ").capitalize())


def written(value: float | None) -> str:
    """A figure with three places, or as many digits where it is large; a dash where it is not defined."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def visible(text: str) -> str:
    """Text without what could move a terminal's cursor or break a file: control characters show as spaces or ·."""
    safe = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(
        char if char.isprintable() else " " if char.isspace() else "\u200d" if char == "\u200d" else "·"
        for char in safe
    )
