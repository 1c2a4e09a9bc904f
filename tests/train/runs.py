"""Small trainings: a store, a recipe, a loop without display."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bertworks.tasks.pretrain import Recipe, examples_of, loss_of, make_model
from bertworks.text.store import Store
from bertworks.train.loop import Loop

from ..stores import plain_tokenizer, random_documents, store_of

TINY: dict[str, dict[str, Any]] = {
    "bert": {"architecture": "bert", "positions": 64},
    "roberta": {"architecture": "roberta", "positions": 70, "segments": 2},
    "roberta-prelayernorm": {"architecture": "roberta-prelayernorm", "positions": 70, "segments": 2},
    "albert": {"architecture": "albert", "positions": 64, "embedding_size": 16, "groups": 2, "dropout": 0.1},
    "modernbert": {"architecture": "modernbert", "positions": 64, "window": 16, "global_every": 2, "dropout": 0.1},
}
SIZES = {"hidden_size": 32, "layers": 2, "heads": 2, "intermediate_size": 64}


class Silent:
    """Watches and remembers."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.looks: list[dict[str, Any]] = []
        self.said: list[str] = []
        self.resumes: list[int] = []

    def step(self, row: Mapping[str, Any]) -> None:
        self.rows.append(dict(row))

    def evaluated(self, row: Mapping[str, Any]) -> None:
        self.looks.append(dict(row))

    def resumed(self, step: int) -> None:
        self.resumes.append(step)

    def end(self, outcome: str) -> None:
        pass


def tiny_store(folder: Path, documents: int = 120) -> Store:
    tokenizer = plain_tokenizer(folder / "t", words=80, pieces=20)
    return store_of(folder / "s", tokenizer, random_documents(tokenizer, documents, 4, sentences=6, tokens=9), 4000)


def table(family: str = "bert", objective: str = "bert", **changes: Any) -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = {
        "model": TINY[family] | SIZES,
        "objective": {"preset": objective},
        "batch": {"length": 48, "tokens": 48 * 16},
        "optimizer": {"lr": 2e-3},
        "schedule": {"warmup": 0.1},
        "budget": {"steps": 20},
        "run": {"precision": "fp32"},
    }
    for path, value in changes.items():
        section, _, name = path.partition("_")
        made.setdefault(section, {})[name] = value
    return made


def loop_of(
    recipe: dict[str, dict[str, Any]], store: Store, run: Path, watch: Silent | None = None, **more: Any
) -> tuple[Loop, Silent]:
    chosen = Recipe.of(recipe)
    ready = make_model(chosen, store)
    watch = watch or Silent()
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[chosen.settings.run.precision]
    loop = Loop(
        ready.model,
        loss_of(chosen, ready),
        examples_of(chosen, store, lambda _: None),
        chosen.settings,
        run,
        dtype=dtype,
        watch=watch,
        say=watch.said.append,
        **more,
    )
    return loop, watch
