"""Ten steps of every architecture with every objective: the losses that they had when this was written.

A change of these numbers is a change of what is trained. Where it is meant, write them anew:

    BERTWORKS_WRITE_GOLDEN=1 pytest tests/train/test_golden.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bertworks.objectives.published import PUBLISHED
from bertworks.text.store import Store

from .runs import TINY, loop_of, table, tiny_store

FILE = Path(__file__).parent / "golden.json"
WRITE = bool(os.environ.get("BERTWORKS_WRITE_GOLDEN"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return tiny_store(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("objective", PUBLISHED)
@pytest.mark.parametrize("family", TINY)
def test_ten_steps_give_the_losses_they_gave(store: Store, tmp_path: Path, family: str, objective: str) -> None:
    """Dropout on. In fp32: kernels of other machines differ by rounding alone."""
    recipe = table(family, objective, budget_steps=10, model_dropout=0.1, model_attention_dropout=0.1)
    loop, watch = loop_of(recipe, store, tmp_path / "run")
    loop.train()
    found = [row["loss"] for row in watch.rows]
    told = json.loads(FILE.read_text()) if FILE.exists() else {}
    if WRITE:
        told[f"{family} {objective}"] = [round(loss, 5) for loss in found]
        FILE.write_text(json.dumps(dict(sorted(told.items())), indent=0) + "\n")
    assert len(found) == 10
    assert found == pytest.approx(told[f"{family} {objective}"], rel=1e-3)
