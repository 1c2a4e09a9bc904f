"""A pair task for a model that has no segments: [SEP] alone parts the two texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertworks.errors import ConfigError
from bertworks.tasks.pretrain import Recipe, make_model

from .runs import loop_of, table, tiny_store


@pytest.mark.parametrize("objective", ["bert", "albert"])
def test_modernbert_learns_a_pair_task_with_the_separator_alone(tmp_path: Path, objective: str) -> None:
    store = tiny_store(tmp_path, 40)
    loop, watch = loop_of(table("modernbert", objective, budget_steps=6), store, tmp_path / "run")
    assert loop.train() == "finished"
    assert all(0 < row["pair_loss"] < 2 for row in watch.rows)
    ready = make_model(Recipe.of(table("modernbert", objective)), store)
    assert ready.written == ("masked_lm",)  # no class of transformers holds the pair head
    assert ready.model.encoder.embeddings.segments is None


def test_segments_are_refused_for_it_and_one_segment_for_the_others(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, 10)
    with pytest.raises(ConfigError, match="ModernBERT has no segments"):
        make_model(Recipe.of(table("modernbert", "bert", model_segments=2)), store)
    with pytest.raises(ConfigError, match=r"set model.segments=2"):
        make_model(Recipe.of(table("roberta", "bert", model_segments=1)), store)
