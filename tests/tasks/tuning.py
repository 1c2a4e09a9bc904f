"""A small model and small problems whose best score is known."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from bertworks.tasks.data import read
from bertworks.tasks.finetune import Ready, finished, fitted, loop_of, prepared
from bertworks.tasks.predicting import outputs_of
from bertworks.tasks.recipe import TuningRecipe

from ..tiny import WORDS, tiny_folder

FAST = {
    "batch": {"size": 16}, "optimizer": {"lr": 4e-3}, "schedule": {"warmup": 0.1},
    "budget": {"steps": 80}, "run": {"precision": "fp32", "seed": 1},
}  # fmt: skip
PLAIN = [word for word in WORDS if word not in ("cat", "dog", "bridge")]


def small_model(folder: Path, family: str = "bert", dropout: float = 0.0) -> Path:
    """A model that learns fast: narrow first values, no dropout."""
    import transformers

    tiny_folder(folder, family)
    config = transformers.AutoConfig.from_pretrained(folder)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
    if hasattr(config, "classifier_dropout_prob"):
        config.classifier_dropout_prob = dropout
    config.initializer_range = 0.05
    torch.manual_seed(3)
    transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
    return folder


def sentence(draw: random.Random, *words: str, size: int = 6) -> str:
    some = [draw.choice(PLAIN) for _ in range(size)] + list(words)
    draw.shuffle(some)
    return " ".join(some)


def two_labels(count: int, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    kinds = [draw.choice(["cat", "dog"]) for _ in range(count)]
    return [{"text": sentence(draw, kind, size=draw.randint(2, 10)), "label": f"is {kind}"} for kind in kinds]


def several_labels(count: int, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        some = [kind for kind in ("cat", "dog", "bridge") if draw.random() < 0.5]
        found.append({"text": sentence(draw, *some), "labels": some})
    return found


def graded(count: int, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        cats = draw.randint(0, 2)
        found.append({"text_a": sentence(draw, *["cat"] * cats), "text_b": sentence(draw), "score": 40.0 + 10 * cats})
    return found


def chosen(count: int, seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        size = draw.randint(2, 4)
        right = draw.randrange(size)
        choices = [sentence(draw, *(["bridge"] if at == right else []), size=3) for at in range(size)]
        found.append({"context": sentence(draw), "question": "where is it", "choices": choices, "label": right})
    return found


def lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf8")
    return path


class Silent:
    """A watcher that keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.looks: list[Mapping[str, Any]] = []

    def step(self, row: Mapping[str, Any]) -> None:
        self.rows.append(dict(row))

    def evaluated(self, row: Mapping[str, Any]) -> None:
        self.looks.append(dict(row))

    def resumed(self, step: int) -> None: ...
    def end(self, outcome: str) -> None: ...


def recipe(name: str, **task: Any) -> TuningRecipe:
    return TuningRecipe.of({**FAST, "task": {"name": name, **task}})


def ready_for(made: TuningRecipe, model: Path, folder: Path, train: Sequence[Any], dev: Sequence[Any]) -> Ready:
    tables = [
        read(str(lines(folder / f"{name}.jsonl", rows)), made.task.reads, say=lambda _: None)
        for name, rows in (("train", train), ("dev", dev))
    ]
    return prepared(made, model, tables[0], tables[1], lambda _: None)


def learnt(
    made: TuningRecipe, model: Path, folder: Path, train: Sequence[Any], dev: Sequence[Any]
) -> tuple[Ready, dict[str, float], Silent]:
    """Trained, and its figures on dev."""
    ready = ready_for(made, model, folder, train, dev)
    watch = Silent()
    loop = loop_of(ready, made, folder / "run", dtype=torch.float32, watch=watch, say=lambda _: None)
    loop.train()
    loop.hand_back()
    finished(ready)
    fitted(ready, ready.model)
    outputs = outputs_of(ready.task, ready.model, ready.dev)
    predictions = ready.task.decode(ready.dev_rows, ready.dev, outputs)
    return ready, ready.task.score(ready.dev_rows, predictions, 0, 10).metrics, watch
