"""How well a model fills masked words of a store, on masks that never change."""

from __future__ import annotations

import math

import torch

from bertworks.errors import tell
from bertworks.models.config import EncoderConfig
from bertworks.models.encoder import Model
from bertworks.objectives.batches import Examples, Place
from bertworks.objectives.published import Objective
from bertworks.text.store import Store

from .data.read import Say
from .pretrain import MOST_EVALUATED, PretrainingLoss

ROWS = 64  # at a time
FIXED = Objective(layout="documents", masking="static", copies=1)


@torch.inference_mode()
def masked_figures(
    model: Model, config: EncoderConfig, store: Store, length: int, say: Say = tell
) -> tuple[dict[str, float], int]:
    """Loss in nats, perplexity and share right over the masked words of up to some 2,000 rows; and how many rows."""
    examples = Examples(store, FIXED, length, seed=0, say=say)
    loss = PretrainingLoss(None, config.segments, packed=False)
    rows = min(examples.count(0), MOST_EVALUATED)
    total = right = 0.0
    chosen = 0
    for at in range(0, rows, ROWS):
        batch = examples.batch(Place(0, at), min(ROWS, rows - at))
        here = int((batch.labels >= 0).sum())
        facts = loss(model, batch, {"chosen": here, "pairs": 0}, True).facts
        total, right, chosen = total + facts["loss"] * here, right + facts["masked_accuracy"] * here, chosen + here
    mean = total / max(chosen, 1)
    return {"loss": mean, "perplexity": math.exp(min(mean, 700)), "accuracy": right / max(chosen, 1)}, rows
