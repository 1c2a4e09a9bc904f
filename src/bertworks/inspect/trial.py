"""A few real training steps on random ids: how fast this machine trains a recipe's own model."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from bertworks.layers.dropout import Source, give_source
from bertworks.layers.init import initialise
from bertworks.objectives.batches import TrainingBatch
from bertworks.objectives.select import most_chosen
from bertworks.tasks.pretrain import Made, Recipe, loss_of
from bertworks.train.masters import Masters

STEPS = 3  # timed; one more goes before them, which finds memory and makes plans


@dataclass(frozen=True)
class Trial:
    """Seconds of a microbatch of `rows` rows, there and back; of adding up its gradients; of the optimiser's step."""

    rows: int
    microbatch: float
    gather: float
    step: float

    def seconds(self, rows: int, microbatches: int) -> float:
        """Of a whole step of so many rows in so many microbatches."""
        return self.microbatch * rows / self.rows + self.gather * microbatches + self.step


def tried(recipe: Recipe, ready: Made, rows: int, dtype: torch.dtype, device: torch.device) -> Trial:
    """Train a model for a few steps of `rows` rows, which spoils it; the middle one of each part's times counts."""
    config, model = ready.description.config, ready.model.train()
    initialise(model, config.init, config.init_std, torch.Generator())
    model.to(device)
    masters = Masters(model, recipe.settings.optimizer, dtype, recipe.settings.run.average)
    give_source(model, Source(*range(rows)))
    loss = loss_of(recipe, ready)
    batch = _random(recipe, ready, rows)
    counts = {"chosen": max(1, len(batch.labels)), "pairs": rows}

    def there_and_back() -> None:
        loss(model, batch, counts, False).total.backward()  # type: ignore[no-untyped-call]

    parts: list[Callable[[], object]] = [there_and_back, masters.gather, lambda: masters.step(1e-6, masters.norm())]
    taken = [[_seconds(part, device) for part in parts] for _ in range(1 + STEPS)]
    return Trial(rows, *(statistics.median(column) for column in zip(*taken[1:], strict=True)))


def _seconds(part: Callable[[], object], device: torch.device) -> float:
    begun = time.perf_counter()
    part()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begun


def _random(recipe: Recipe, ready: Made, rows: int) -> TrainingBatch:
    """A batch in the shapes of the recipe's, of no language."""
    length, vocabulary = recipe.settings.batch.length, ready.description.config.vocab_size
    most = most_chosen(recipe.objective, length)
    draw = np.random.default_rng(0)
    firsts = np.arange(rows, dtype=np.int64) * length
    return TrainingBatch(
        ids=draw.integers(0, vocabulary, (rows, length), np.int32),
        segments=np.zeros((rows, length), np.uint8),
        sequences=np.ones((rows, length), np.uint16),
        chosen=(firsts[:, None] + np.arange(most)).ravel(),
        labels=draw.integers(0, vocabulary, rows * most),
        firsts=firsts,
        answers=np.zeros(rows, np.int64),
    )
