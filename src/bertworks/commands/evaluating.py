"""An evaluation for a person: what `evaluate`, `finetune` and `suite` show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertworks.inspect.report import Report as Page
    from bertworks.metrics import Scores
    from bertworks.tasks.data import Row
    from bertworks.tasks.task import Prediction, Task


def report_of(task: Task, model: str, rows: Sequence[Row], predictions: Sequence[Prediction], scores: Scores) -> Page:
    """Figures and the worst mistakes."""
    from bertworks.inspect.report import Mistake, Span
    from bertworks.inspect.report import Report as Page

    mistakes = []
    for wrong in task.mistakes(rows, predictions):
        told = asdict(wrong) | {"spans": tuple(Span(*one) for one in wrong.spans)}  # type: ignore[arg-type]
        mistakes.append(Mistake(**told))
    return Page(task.name, model, scores, mistakes=tuple(mistakes))


def pages(page: Page, path: Path) -> None:
    """As one HTML file, or as JSON where the name says so."""
    import json

    from bertworks.folders import written
    from bertworks.inspect.report import html, to_json

    text = json.dumps(to_json(page), ensure_ascii=False) if path.suffix == ".json" else html(page)
    with written(path) as file:
        file.write(text.encode("utf8", "replace"))
