"""Each task learns a made-up problem to its known best score, by every way of training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertworks.errors import ConfigError
from bertworks.tasks.finetune import finished, loop_of
from bertworks.tasks.lora import Adapted
from bertworks.tasks.starting import write_tuned

from .tuning import Silent, chosen, graded, learnt, ready_for, recipe, sentence, several_labels, small_model, two_labels


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"class_weights": "balanced", "focal": 2.0},
        {"label_smoothing": 0.1, "calibrate": False},
        {"lora": 4, "lora_targets": ["query", "value", "up"]},
        {"reinitialise": 1},
    ],
    ids=str,
)
def test_one_label(model: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    made = recipe("classify", **options)
    made = replace(made, budget=replace(made.budget, steps=120 if "lora" in options else 60))
    ready, figures, _ = learnt(made, model, tmp_path, two_labels(300, 0), two_labels(120, 1))
    assert ready.task.labels == ("is cat", "is dog")
    assert figures["accuracy"] == 1.0
    assert not any(isinstance(part, Adapted) for part in ready.model.modules())


def test_several_labels(model: Path, tmp_path: Path) -> None:
    made = recipe("classify")
    made = replace(made, budget=replace(made.budget, steps=150))
    ready, figures, _ = learnt(made, model, tmp_path, several_labels(400, 0), several_labels(150, 1))
    assert ready.task.several
    assert len(ready.task.thresholds) == 3
    assert figures["f1_micro"] > 0.99


def test_numbers_on_the_scale_of_the_data(model: Path, tmp_path: Path) -> None:
    made = recipe("regress")
    made = replace(made, budget=replace(made.budget, steps=200))
    ready, figures, _ = learnt(made, model, tmp_path, graded(400, 0), graded(100, 1))
    assert figures["pearson"] > 0.99
    assert figures["mae"] < 1.5
    assert (ready.task.center, ready.task.spread) == (0.0, 1.0)  # they are in the weights now
    assert ready.description.file["problem_type"] == "regression"


def test_choices(model: Path, tmp_path: Path) -> None:
    made = recipe("choose")
    made = replace(made, budget=replace(made.budget, steps=150))
    _, figures, _ = learnt(made, model, tmp_path, chosen(300, 0), chosen(100, 1))
    assert figures["accuracy"] > 0.98


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_what_is_far_into_a_text_is_seen_in_windows(model: Path, tmp_path: Path, pooling: str) -> None:
    """The word that decides stands behind the model's 40 tokens; cut, nothing can be learnt."""
    import random

    def rows(count: int, seed: int) -> list[dict[str, Any]]:
        draw = random.Random(seed)
        kinds = [draw.choice(["cat", "dog"]) for _ in range(count)]
        return [
            {"text": f"{sentence(draw, size=45)} {sentence(draw, kind, kind, kind, size=10)}", "label": kind}
            for kind in kinds
        ]

    train, dev = rows(200, 0), rows(80, 1)
    made = recipe("classify", long="windows", overlap=8, pooling=pooling)
    made = replace(made, budget=replace(made.budget, steps=120))
    ready, figures, _ = learnt(made, model, tmp_path, train, dev)
    assert len(ready.dev) >= 2 * len(dev)
    assert figures["accuracy"] > 0.97
    _, figures, _ = learnt(recipe("classify"), model, tmp_path / "cut", *_made(tmp_path / "cut", train, dev))
    assert figures["accuracy"] < 0.8


def _made(folder: Path, *some: Any) -> Any:
    folder.mkdir()
    return some


def test_a_teacher_is_listened_to(model: Path, tmp_path: Path) -> None:
    """With all weight on the teacher, wrong labels do no harm."""
    train, dev = two_labels(300, 0), two_labels(120, 1)
    ready, _, _ = learnt(recipe("classify"), model, tmp_path, train, dev)
    write_tuned(tmp_path / "teacher", ready.model, ready.description, ready.tokenizer, ready.task)
    other = {"is cat": "is dog", "is dog": "is cat"}
    wrong = [{**row, "label": other[row["label"]]} for row in train]
    made = recipe("classify", teacher=str(tmp_path / "teacher"), teacher_weight=1.0)
    _, figures, _ = learnt(made, model, tmp_path / "student", *_made(tmp_path / "student", wrong, dev))
    assert figures["accuracy"] == 1.0


def test_the_best_look_is_kept_and_patience_ends_it(model: Path, tmp_path: Path) -> None:
    made = recipe("classify", patience=2)
    made = replace(made, run=replace(made.run, evaluate_every=10), budget=replace(made.budget, steps=400))
    _, figures, watch = learnt(made, model, tmp_path, two_labels(300, 0), two_labels(120, 1))
    seen = [row["dev_accuracy"] for row in watch.looks]
    assert figures["accuracy"] == max(seen) == 1.0
    assert len(watch.rows) < 400


def test_frozen_weights_are_written_as_they_were(model: Path, tmp_path: Path) -> None:
    made = recipe("classify")
    made = replace(made, optimizer=replace(made.optimizer, freeze=("embeddings", "blocks.0")))
    ready = ready_for(made, model, tmp_path, two_labels(64, 0), two_labels(32, 1))
    before = {name: weight.detach().clone() for name, weight in ready.model.named_parameters()}
    loop = loop_of(ready, made, tmp_path / "run", dtype=torch.bfloat16, watch=Silent(), say=lambda _: None)
    loop.train()
    loop.hand_back()
    finished(ready)
    for name, weight in ready.model.named_parameters():
        still = name.startswith(("encoder.embeddings.", "encoder.stack.blocks.0."))
        assert torch.equal(weight, before[name]) == still, name


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lora": 2, "lora_targets": ["querry"]}, "querry"),
        ({"reinitialise": 2}, "less than the model's 2"),
        ({"temperature": 2.0}, "task.temperature"),
        ({"nonsense": 1}, "task.nonsense"),
        ({"folds": 1}, "folds"),
        ({"metric": "f2"}, "f2"),
    ],
)
def test_what_makes_no_sense_is_said(model: Path, tmp_path: Path, options: dict[str, Any], said: str) -> None:
    def run() -> None:
        made = recipe("classify", **options)
        made = replace(made, run=replace(made.run, evaluate_every=1), budget=replace(made.budget, steps=1))
        learnt(made, model, tmp_path, two_labels(64, 0), two_labels(32, 1))

    with pytest.raises(ConfigError, match=said):
        run()


def test_balanced_weights_keep_the_mean() -> None:
    from bertworks.tasks.classify import _balanced

    gold = np.array([0] * 90 + [1] * 10)
    weights = np.array(_balanced(gold, False))
    assert weights[gold].mean() == pytest.approx(1.0)
    assert weights[1] / weights[0] == pytest.approx(9.0)


def test_training_the_words_that_occur_is_training_all(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without weight decay the weights are those of a training with the whole table."""
    from bertworks.tasks import compact

    made = recipe("classify")
    made = replace(made, optimizer=replace(made.optimizer, weight_decay=0.0), budget=replace(made.budget, steps=20))
    found = []
    for number, worth in enumerate((0.9, 0.0)):
        monkeypatch.setattr(compact, "WORTH", worth)
        folder = tmp_path / str(number)
        folder.mkdir()
        ready, _, _ = learnt(made, model, folder, two_labels(64, 0), two_labels(32, 1))
        assert (ready.compact is not None) == (worth > 0)
        found.append(ready.model.state_dict())
    assert len(found[0]["encoder.embeddings.tokens.weight"]) == len(found[1]["encoder.embeddings.tokens.weight"])
    assert all(torch.allclose(found[0][name], found[1][name], atol=1e-6) for name in found[0])
