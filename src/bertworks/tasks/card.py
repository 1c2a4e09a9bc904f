"""The README.md of a fine-tuned model: what it is for, how well it does it, and how to use it."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from bertworks.metrics import Scores

from .task import Task

PIPELINES = {
    "classify": "text-classification",
    "regress": "text-classification",
    "prompt": "text-classification",
    "tag": "token-classification",
    "answer": "question-answering",
    "choose": "multiple-choice",
    "embed": "sentence-similarity",
}
INPUTS = {
    "tag": '"Marie Curie was born in Warsaw."',
    "answer": '{"question": "Who wrote it?", "context": "…"}',
    "choose": '{"context": "…", "question": "…", "choices": ["…", "…"]}',
    "embed": '{"anchor": "…", "positive": "…"}',
}


def tuned_card(run: Path, task: Task, scores: Scores, facts: Mapping[str, object]) -> str:
    """The card as Markdown. facts: what to tell of the training; settings are read from the run's recipe.toml."""
    kind = PIPELINES[task.name]
    head = {"library_name": "transformers", "pipeline_tag": kind, "tags": ["bertworks", kind]}
    parts = [
        "\n".join(["---", *(f"{key}: {json.dumps(value)}" for key, value in head.items()), "---"]),
        f"# {run.name}",
        f"Fine-tuned with bertworks to {task.name}.",
        "## How to use it",
        _usage(run, task),
        "## How well it does",
        f"On {scores.examples:,} rows that it was not trained on; intervals are 95 % by bootstrap over them.",
        _figures(scores),
        *[f"- {_cell(one)}" for one in scores.remarks],
        "## What it learned from",
        _table({key.replace("_", " "): value for key, value in facts.items()}),
        *(["Labels: " + ", ".join(map(_cell, task.labels))] if task.labels else []),
        "## Settings",
        _table(_settings(run)),
    ]
    return "\n\n".join(parts) + "\n"


def _usage(run: Path, task: Task) -> str:
    text = INPUTS.get(task.name, '"a text"')
    return (
        f"```sh\nbertworks predict {run.name} texts.jsonl\n```\n\n"
        f'```python\nimport bertworks\n\nbertworks.load("{run.name}").predict([{text}])\n```'
    )


def _figures(scores: Scores) -> str:
    guesses = list(scores.baselines)
    lines = ["| figure | value | interval | " + " | ".join(guesses) + (" |" if guesses else "")]
    lines.append("| --- | --- | --- |" + " --- |" * len(guesses))
    for name, value in scores.metrics.items():
        low, high = scores.intervals.get(name, (math.nan, math.nan))
        span = f"{_figure(low)} – {_figure(high)}" if low == low else ""
        beside = "".join(f" {_figure(scores.baselines[one].get(name))} |" for one in guesses)
        lines.append(f"| {name.replace('_', ' ')} | {_figure(value)} | {span} |{beside}")
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{value:.4f}"


def _settings(run: Path) -> dict[str, object]:
    """The resolved recipe, as a.b = value."""
    path = run / "recipe.toml"
    table: dict[str, Any] = tomllib.loads(path.read_text("utf8")) if path.exists() else {}
    return {
        f"{section}.{key}": f"`{json.dumps(value, ensure_ascii=False)}`"
        for section, keys in table.items()
        for key, value in keys.items()
    }


def _table(rows: Mapping[str, object]) -> str:
    return "\n".join(["| | |", "| --- | --- |", *(f"| {_cell(key)} | {_cell(value)} |" for key, value in rows.items())])


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape(" ".join(str(value).split()), quote=False).replace("|", "\\|")
