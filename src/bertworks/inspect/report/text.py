"""A report for the terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from .contents import Mistake, Report, called, visible, written

CLASSES = 20  # lines of the table of classes
MATRIX = 8  # classes that a confusion matrix shows
MISTAKES = 5
WIDTH = 100  # columns that a mistake's text may take


def text(report: Report) -> str:
    """Figures with their intervals beside guessing's, then classes, confusions and the worst mistakes."""
    parts = [_head(report), _figures(report), _classes(report), _matrix(report), _mistakes(report.mistakes)]
    parts.append("\n".join(f"note: {visible(one)}" for one in report.every_remark))
    parts.append(f"again: {visible(report.command)}" if report.command else "")
    return "\n\n".join(part for part in parts if part)


def _head(report: Report) -> str:
    first = f"{visible(report.task)} · {visible(report.model)}" + (f" on {visible(report.data)}" if report.data else "")
    sizes = ", ".join(f"{visible(name)} {size:,}" for name, size in report.sizes.items())
    return f"{first}\n{report.scores.examples:,} examples" + (f" ({sizes})" if sizes else "")


def _figures(report: Report) -> str:
    scores = report.scores
    rows = [["", "", "95 % interval", *scores.baselines]]
    for name, value in scores.metrics.items():
        low, high = scores.intervals.get(name, (None, None))
        span = f"{written(low)} – {written(high)}" if low is not None else ""
        guesses = [written(one[name]) if name in one else "" for one in scores.baselines.values()]
        rows.append([called(name), written(value), span, *guesses])
    return table(rows)


def _classes(report: Report) -> str:
    lines: list[dict[str, Any]] = report.scores.details.get("classes", [])
    if not lines:
        return ""
    rows = [["label", "precision", "recall", "F1", "95 % interval", "gold"]]
    for one in sorted(lines, key=lambda line: -line["support"])[:CLASSES]:
        span = f"{written(one['f1_low'])} – {written(one['f1_high'])}"
        figures = [written(one[name]) for name in ("precision", "recall", "f1")]
        rows.append([short(one["label"], 30), *figures, span, f"{one['support']:,}"])
    left = len(lines) - CLASSES
    return table(rows) + (f"\n… and {left} more" if left > 0 else "")


def _matrix(report: Report) -> str:
    matrix = report.scores.details.get("confusion")
    if not matrix or len(matrix) > MATRIX:
        return ""
    labels = [short(one, 12) for one in report.scores.details["labels"]]
    rows = [["gold ↓ predicted →", *labels]]
    rows += [[label, *(f"{count:,}" for count in row)] for label, row in zip(labels, matrix, strict=True)]
    return table(rows)


def _mistakes(mistakes: Sequence[Mistake]) -> str:
    if not mistakes:
        return ""
    lines = ["worst mistakes"]
    for one in mistakes[:MISTAKES]:
        sure = "" if one.probability is None else f" ({one.probability:.0%} sure)"
        where = "" if one.line is None else f"line {one.line}: "
        gold, predicted = short(one.gold, 40) or "nothing", short(one.predicted, 40) or "nothing"
        lines.append(f"  {where}{gold} taken for {predicted}{sure}")
        lines.append(f"    {short(one.text + (' | ' + one.text_b if one.text_b else ''), WIDTH)}")
    return "\n".join(lines)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned: the first to the left, the others, numbers, to the right."""
    rows = [[visible(cell) for cell in row] for row in rows]
    wide = [max(columns(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0] + " " * (wide[0] - columns(row[0]))]
        cells += [" " * (size - columns(cell)) + cell for cell, size in zip(row[1:], wide[1:], strict=True)]
        lines.append(("  ".join(cells)).rstrip())
    return "\n".join(lines)


def columns(value: str) -> int:
    """The columns a text takes in a terminal: Chinese characters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in value
    )


def short(value: str, most: int) -> str:
    """One visible line of at most so many columns."""
    line = " ".join(visible(value).split())
    if columns(line) <= most:
        return line
    kept, used = [], 1
    for char in line:
        used += columns(char)
        if used > most:
            break
        kept.append(char)
    return "".join(kept) + "…"
