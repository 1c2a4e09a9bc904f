"""The gradient of every parameter against transformers', to 1e-4, in evaluation and training mode."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from .peers import CLASSES, make, random_ids, their_scores


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(("family", "name"), CLASSES)
def test_gradient_of_every_parameter(tmp_path: Path, family: str, name: str, train: bool) -> None:
    over = {"num_hidden_groups": 3} if family == "albert" else {}
    peers = make(tmp_path, family, name, **over)
    peers.theirs.train(train)
    peers.ours.train(train)
    ids = random_ids(peers, 4, 13)
    mask = torch.ones_like(ids)
    mask[1, 8:] = 0
    mask[3, 1:] = 0
    ids[mask == 0] = peers.description.config.pad_id or 0
    if name.endswith("MultipleChoice"):
        ids, mask = ids.view(2, 2, -1), mask.view(2, 2, -1)
    theirs, ours = peers.both(ids, mask)
    heads = peers.description.heads
    if heads:
        outputs = [(score, ours.scores[head]) for head, score in their_scores(theirs, heads).items()]
    else:
        outputs = [(theirs.last_hidden_state, ours.last)]
        if ours.pooled is not None:
            outputs.append((theirs.pooler_output, ours.pooled))
    if family == "modernbert":  # of tokens' outputs, those of real ones (see `difference`)
        outputs = [(a[mask > 0], b[mask > 0]) if a.shape[:2] == mask.shape else (a, b) for a, b in outputs]
    generator = torch.Generator().manual_seed(2)
    weights = [torch.randn(a.shape, generator=generator) for a, _ in outputs]
    sum((a * w).sum() for (a, _), w in zip(outputs, weights, strict=True)).backward()
    sum((b * w).sum() for (_, b), w in zip(outputs, weights, strict=True)).backward()

    table = peers.description.architecture.names(peers.description.config, heads)
    gradients = {key: torch.zeros_like(p) if p.grad is None else p.grad for key, p in peers.ours.named_parameters()}
    ours_by_name = table.write(gradients, prefix=bool(heads))
    compared = 0
    for key, weight in peers.theirs.named_parameters():
        wanted = torch.zeros_like(weight) if weight.grad is None else weight.grad
        scale = max(1.0, float(wanted.abs().max()))
        assert float((ours_by_name[key] - wanted).abs().max()) / scale <= 1e-4, key
        compared += 1
    assert compared == len(ours_by_name) >= 20
