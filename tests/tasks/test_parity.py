"""The same weights, rows and labels in transformers: the same loss and the same gradient of every parameter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from bertworks.models.folder import load_model
from bertworks.objectives.batches import Place
from bertworks.tasks.batches import FeatureLine
from bertworks.tasks.finetune import Ready
from bertworks.tasks.starting import write_tuned

from .tuning import chosen, graded, ready_for, recipe, several_labels, small_model, two_labels

CLASSES = {
    "classify": transformers.AutoModelForSequenceClassification,
    "regress": transformers.AutoModelForSequenceClassification,
    "choose": transformers.AutoModelForMultipleChoice,
}


def peer(ready: Ready, folder: Path) -> Any:
    """Ours, written and read by transformers."""
    write_tuned(folder, ready.model, ready.description, ready.tokenizer, ready.task)
    return CLASSES[ready.task.name].from_pretrained(folder, attn_implementation="eager").eval()


def gradients(ready: Ready, folder: Path, theirs: Any) -> None:
    """Theirs, read as weights of ours, are equal to ours."""
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(torch.zeros_like(weight) if weight.grad is None else weight.grad)
    theirs.save_pretrained(folder)
    other, _ = load_model(folder, tuple(ready.model.heads))
    wanted = dict(other.named_parameters())
    for name, weight in ready.model.named_parameters():
        ours = torch.zeros_like(weight) if weight.grad is None else weight.grad
        assert torch.allclose(ours, wanted[name], atol=2e-6, rtol=1e-4), name


@pytest.mark.parametrize("family", ["bert", "roberta", "albert"])
@pytest.mark.parametrize(
    ("name", "rows", "options"),
    [
        ("classify", two_labels, {}),
        ("classify", several_labels, {}),
        ("regress", graded, {"normalise": False}),
        ("choose", chosen, {}),
    ],
    ids=["one label", "several", "regress", "choose"],
)
def test_loss_and_gradients(tmp_path: Path, family: str, name: str, rows: Any, options: dict[str, Any]) -> None:
    model = small_model(tmp_path / "model", family)
    table = rows(12, 0)
    if name == "choose":  # transformers wants equally many
        table = [{**row, "choices": (row["choices"] * 2)[:2], "label": row["label"] % 2} for row in table]
    ready = ready_for(recipe(name, **options), model, tmp_path, table, rows(8, 1))
    theirs = peer(ready, tmp_path / "peer")
    batch = FeatureLine(ready.train, 12).batch(Place(), 12)
    loss = ready.task.loss()
    ours = loss(ready.model, batch, loss.counts(batch), True)
    ours.total.backward()
    inputs = {"input_ids": torch.from_numpy(batch.ids).long(), "attention_mask": torch.from_numpy(batch.real).long()}
    if batch.segments is not None and family != "roberta":
        inputs["token_type_ids"] = torch.from_numpy(batch.segments).long()
    labels = batch.per_unit["scores" if name == "regress" else "labels"]
    target = torch.from_numpy(labels).float() if labels.ndim == 2 or name == "regress" else torch.from_numpy(labels)
    if name == "choose":
        inputs = {key: value.view(12, 2, -1) for key, value in inputs.items()}
    said = theirs(**inputs, labels=target)
    assert float(ours.total) == pytest.approx(float(said.loss), abs=1e-5)
    assert ours.facts["loss"] == pytest.approx(float(said.loss), abs=1e-5)
    said.loss.backward()
    gradients(ready, tmp_path / "gradients", theirs)


def test_microbatches_add_up(tmp_path: Path) -> None:
    """A global batch in parts has the loss and the gradient of the whole, windows and all."""
    model = small_model(tmp_path / "model")
    options = {"long": "windows", "overlap": 4, "class_weights": "balanced", "focal": 1.0}
    made = recipe("classify", **options)
    ready = ready_for(made, model, tmp_path, [*two_labels(20, 0), {"text": "cat the mat " * 30, "label": "is cat"}],
                      two_labels(8, 1))  # fmt: skip
    line, loss = FeatureLine(ready.train, 21), ready.task.loss()
    found = []
    for sizes in ([21], [8, 8, 5]):
        ready.model.zero_grad()
        place, batches = Place(), []
        for size in sizes:
            batches.append(line.batch(place, size))
            place = line.after(place, size)
        counts = {key: sum(loss.counts(one)[key] for one in batches) for key in ("units", "tokens")}
        facts = 0.0
        for one in batches:
            part = loss(ready.model, one, counts, False)
            part.total.backward()
            facts += part.facts["loss"]
        grads = torch.cat([weight.grad.flatten() for weight in ready.model.parameters() if weight.grad is not None])
        found.append((facts, counts, grads))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-6)
    assert found[0][1] == found[1][1]
    assert torch.allclose(found[0][2], found[1][2], atol=1e-6)


@pytest.mark.parametrize(
    ("name", "rows"), [("classify", two_labels), ("classify", several_labels), ("regress", graded)]
)
def test_a_written_folder_says_the_same_in_transformers(tmp_path: Path, name: str, rows: Any) -> None:
    import bertworks

    model = small_model(tmp_path / "model")
    ready = ready_for(recipe(name), model, tmp_path, rows(40, 0), rows(12, 1))
    if name == "regress":
        ready.task = ready.task.settled(ready.model)
    theirs = peer(ready, tmp_path / "out")
    predictor = bertworks.load(tmp_path / "out", dtype="fp32")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    for row in rows(12, 1):
        text = (row["text"],) if "text" in row else (row["text_a"], row["text_b"])
        with torch.inference_mode():
            logits = theirs(**tokenizer(*text, return_tensors="pt")).logits[0]
        said = predictor.predict([text[0] if len(text) == 1 else text])[0]
        if name == "regress":
            assert said["score"] == pytest.approx(float(logits[0]), abs=1e-4)
        else:
            shares = logits.sigmoid() if "labels" in row else logits.softmax(-1)
            assert np.allclose(list(said["scores"].values()), shares, atol=1e-5)
            assert theirs.config.id2label == dict(enumerate(said["scores"]))
