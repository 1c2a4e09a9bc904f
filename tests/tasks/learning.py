"""A short training without a run: what a task needs to show that it learns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from bertworks.models.encoder import Model
from bertworks.objectives.batches import Place
from bertworks.tasks.batches import FeatureLine
from bertworks.tasks.data import Row
from bertworks.tasks.starting import starting_model
from bertworks.tasks.task import Task
from bertworks.text.tokenizer import Tokenizer


def learnt(
    task: Task, folder: Path, rows: Sequence[Row], tokenizer: Tokenizer, steps: int, lr: float, size: int = 32
) -> Model:
    """The folder's encoder trained on rows, in fp32 with torch's own AdamW, in evaluation mode."""
    model, _ = starting_model(task, folder, torch.Generator().manual_seed(0))
    features = task.features(rows, tokenizer, True)
    line, loss, place = FeatureLine(features, size), task.loss(), Place(0, 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr)
    for step in range(steps):
        batch = line.batch(place, size)
        place = line.after(place, size)
        loss(model, batch, loss.counts(batch), False).total.backward()
        for group in optimizer.param_groups:
            group["lr"] = lr * (1 - step / steps)
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()
