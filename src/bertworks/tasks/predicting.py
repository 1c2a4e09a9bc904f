"""From rows to predictions: the one path behind evaluation while training, `evaluate`, `predict` and Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from bertworks.errors import InputError, WeightsError
from bertworks.metrics import Scores
from bertworks.text.tokenizer import Tokenizer

from .batches import to_predict
from .data import Noted, Row, Text
from .data.build import BUILD, Building, Cells
from .data.columns import resolved
from .features import Features
from .task import Output, Prediction, Task

HERE = "input"  # how errors name rows that are from no file


@torch.inference_mode()
def outputs_of(
    task: Task, module: nn.Module, features: Features, progress: Callable[[int], None] | None = None
) -> list[Output]:
    """What the model says of each feature. The module is put into evaluation mode."""
    module.eval()
    found: list[Output] = [np.zeros(0, np.float32)] * len(features)
    for batch in to_predict(features):
        said = task.outputs(module, batch)
        if not all(np.isfinite(one).all() for one in said):
            raise WeightsError("the model gives values that are not finite", "use --dtype fp32, or train it again")
        for at, one in zip(batch.features.tolist(), said, strict=True):
            found[at] = one
        if progress is not None:
            progress(len(said))
    return found


def predictions_of(task: Task, module: nn.Module, tokenizer: Tokenizer, rows: Sequence[Row]) -> list[Prediction]:
    """A prediction for each row."""
    if not rows:
        return []
    features = task.features(rows, tokenizer, False)
    return task.decode(rows, features, outputs_of(task, module, features))


def evaluation(
    task: Task, rows: Sequence[Row], features: Features, seed: int = 0
) -> Callable[[nn.Module], dict[str, float]]:
    """What the loop looks at now and then: the figures of held-out rows, as dev_*; intervals can wait for the end."""

    def evaluate(module: nn.Module) -> dict[str, float]:
        predictions = task.decode(rows, features, outputs_of(task, module, features))
        scores: Scores = task.score(rows, predictions, seed, 1)
        return {f"dev_{name}": value for name, value in scores.metrics.items()}

    return evaluate


def rows_of(task: Task, items: Iterable[Any]) -> list[Row]:
    """Rows of what Python hands in: texts, pairs of texts, or records with the columns of the task."""
    found: list[Row] = []
    for number, item in enumerate(items, 1):
        if isinstance(item, Row):
            found.append(item)
        elif isinstance(item, Mapping):
            found += _built(task, dict(item), number)
        elif task.reads in ("classify", "regress"):
            one, other = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
            if not isinstance(one, str) or not isinstance(other, str | None):
                raise InputError(f"{HERE}:{number}: a text is wanted, not {type(item).__name__}", "a text, or a pair")
            found.append(Text(file=HERE, line=number, text=one, text_b=other))
        elif task.reads == "tag" and isinstance(item, str):
            found += _built(task, {"text": item}, number)
        elif task.reads == "tag" and isinstance(item, Sequence):
            found += _built(task, {"tokens": list(item)}, number)
        else:
            raise InputError(
                f"{HERE}:{number}: {task.name} wants a record, not {type(item).__name__}",
                "a mapping with the columns of the task, see docs/task-data.md",
            )
    return found


def _built(task: Task, record: dict[str, Any], number: int) -> list[Row]:
    columns = resolved(task.reads, list(record), {}, HERE, labelled=False)
    building = Building(HERE, columns, Noted(), labelled=False)
    return BUILD[columns.task](Cells(building, record, number))
