"""Eager, fused and packed attention agree, masks of every kind compose, and packed rows are each sequence alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from bertworks.layers import masks
from bertworks.layers.attention import WAYS, Attention, Packing, Sight
from bertworks.layers.dropout import Dropout, Source
from bertworks.layers.positions import RelativePositions
from bertworks.models.encoder import Model

from .peers import FAMILIES, PREFIX, Peers, make, random_ids

CLOSE = 1e-5


def sights(length: int) -> dict[str, tuple[Tensor | None, Tensor | None]]:
    """(mask, sequences) of each kind over 3 rows."""
    real = torch.arange(length) < torch.tensor([length, length - 3, 2])[:, None]
    sequences = torch.tensor(
        [[1] * 4 + [2] * 3 + [3] * (length - 7), [1] * (length - 3) + [0] * 3, [1, 2] + [0] * (length - 2)]
    )
    return {
        "nothing": (None, None),
        "padding": (masks.padding(real), None),
        "causal": (masks.causal(length), None),
        "prefix": (masks.prefix(torch.tensor([2, 5, length]), length), None),
        "packed": (None, sequences),
        "packed and causal": (masks.causal(length), sequences),
        "padding and prefix": (masks.padding(real) & masks.prefix(torch.tensor([1, 2, 3]), length), None),
        "some random": (torch.rand(3, 1, length, length) < 0.5, None),
        "by head": (torch.rand(3, 2, length, length) < 0.5, None),
        "packed, random": (torch.rand(3, 1, length, length) < 0.5, sequences),
    }


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", list(sights(11)))
def test_three_ways_agree_with_gradients(kind: str, biased: bool) -> None:
    length = 11
    mask, sequences = sights(length)[kind]
    bias = RelativePositions(heads=2, buckets=8)(torch.arange(length)[None]).detach() if biased else None
    x = torch.randn(3, length, 8)
    real = torch.ones(3, length, dtype=torch.bool) if sequences is None else sequences > 0
    whole = mask
    if sequences is not None:
        whole = masks.block_diagonal(sequences) if mask is None else mask & masks.block_diagonal(sequences)
    layer = Attention(8, heads=2)
    results = {}
    for way in WAYS:
        layer.way = way
        layer.zero_grad()
        packing = Packing.of(real.long() if sequences is None else sequences)
        sight = Sight(mask, bias, packing) if way == "packed" else Sight(whole, bias)
        out, _ = layer(x, sight)
        (out * out * real[:, :, None]).sum().backward()
        results[way] = [out[real], *(weight.grad.clone() for weight in layer.parameters())]
    for way in ("fused", "packed"):
        for mine, exact in zip(results[way], results["eager"], strict=True):
            assert torch.isfinite(mine).all()
            assert (mine - exact).abs().max() <= CLOSE * max(1.0, float(exact.detach().abs().max()))


def test_a_query_that_sees_nothing_gets_zeros_in_every_way() -> None:
    mask = torch.ones(1, 1, 4, 4, dtype=torch.bool)
    mask[0, 0, 2] = False
    q, k, v = (torch.randn(1, 2, 4, 3, requires_grad=True) for _ in range(3))
    for way in ("eager", "fused"):
        out, _ = WAYS[way](q, k, v, Sight(mask))
        assert out[0, :, 2].abs().max() == 0
        for gradient in torch.autograd.grad(out.sum(), (q, k, v)):
            assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("source", [None, Source(3)], ids=["torch", "fast"])
def test_dropout_falls_on_the_probabilities(way: str, source: Source | None) -> None:
    """With one-hot values the output is the probabilities themselves: dropped ones are 0, kept ones scaled."""
    length, p = 64, 0.25
    q = k = torch.zeros(4, 2, length, length)  # uniform attention, 1/length each
    v = torch.eye(length).expand(4, 2, -1, -1)
    sequences = torch.ones(4, length, dtype=torch.long)
    drop = Dropout(p)
    drop.source = source
    out, _ = WAYS[way](q, k, v, Sight(packing=Packing.of(sequences)), drop)
    kept = out[out != 0]
    assert torch.allclose(kept, torch.full_like(kept, 1 / length / (1 - p)))
    assert abs(float((out == 0).float().mean()) - p) < 0.02


@pytest.mark.parametrize("way", list(WAYS))
def test_dropout_is_off_in_evaluation_and_on_in_training(way: str) -> None:
    layer = Attention(8, heads=2, dropout=0.5, way=way)
    x = torch.randn(2, 6, 8)
    sight = Sight(packing=Packing.of(torch.ones(2, 6, dtype=torch.long)))
    layer.eval()
    assert torch.equal(layer(x, sight)[0], layer(x, sight)[0])
    layer.train()
    assert not torch.equal(layer(x, sight)[0], layer(x, sight)[0])


def pack(peers: Peers, pieces: list[list[int]], rows: list[list[int]], length: int) -> tuple[Tensor, Tensor]:
    """Rows of pieces, one after another, padded."""
    pad = peers.description.config.pad_id or 0
    ids, sequences = torch.full((len(rows), length), pad), torch.zeros(len(rows), length, dtype=torch.long)
    for i, row in enumerate(rows):
        at = 0
        for number, piece in enumerate(row, 1):
            size = len(pieces[piece])
            ids[i, at : at + size] = torch.tensor(pieces[piece])
            sequences[i, at : at + size] = number
            at += size
    return ids, sequences


def alone(model: Model, piece: list[int]) -> Tensor:
    model.encoder.way = "eager"
    with torch.no_grad():
        return model.encoder(torch.tensor([piece])).last[0]


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("family", FAMILIES)
def test_every_sequence_of_a_packed_batch_equals_itself_alone(tmp_path: Path, family: str, way: str) -> None:
    over = {"num_hidden_groups": 3} if family == "albert" else {}
    peers = make(tmp_path, family, PREFIX[family] + "Model", **over)
    pieces = [random_ids(peers, 1, size)[0].tolist() for size in (5, 1, 9, 5, 12, 3, 20)]
    ids, sequences = pack(peers, pieces, [[0, 1, 2], [3, 4], [5], [6]], 24)
    peers.ours.encoder.way = way
    with torch.no_grad():
        last = peers.ours.encoder(ids, sequences=sequences).last
    for row, members in enumerate([[0, 1, 2], [3, 4], [5], [6]]):
        for number, piece in enumerate(members, 1):
            got = last[row][sequences[row] == number]
            assert (got - alone(peers.ours, pieces[piece])).abs().max() <= CLOSE


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("family", FAMILIES)
def test_padding_changes_nothing(tmp_path: Path, family: str, way: str) -> None:
    peers = make(tmp_path, family, PREFIX[family] + "Model")
    pieces = [random_ids(peers, 1, size)[0].tolist() for size in (7, 2, 13)]
    ids, sequences = pack(peers, pieces, [[0], [1], [2]], 13)
    peers.ours.encoder.way = way
    with torch.no_grad():
        last = peers.ours.encoder(ids, real=sequences > 0).last
    for row, piece in enumerate(pieces):
        assert (last[row, : len(piece)] - alone(peers.ours, piece)).abs().max() <= CLOSE


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_gradients_equal_the_sum_of_each_alone(tmp_path: Path, family: str) -> None:
    peers = make(tmp_path, family, PREFIX[family] + "ForMaskedLM")
    model = peers.ours
    pieces = [random_ids(peers, 1, size)[0].tolist() for size in (6, 4, 8)]
    ids, sequences = pack(peers, pieces, [[0, 1], [2]], 12)
    model.encoder.way = "packed"
    (model.encoder(ids, sequences=sequences).last[sequences > 0] ** 3).sum().backward()
    packed = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    model.encoder.way = "eager"
    for piece in pieces:
        (model.encoder(torch.tensor([piece])).last ** 3).sum().backward()
    for name, weight in model.named_parameters():
        if weight.grad is not None:
            assert (weight.grad - packed[name]).abs().max() <= 1e-4 * max(1.0, float(weight.grad.abs().max())), name


@pytest.mark.parametrize("family", FAMILIES)
def test_chosen_positions_alone_are_scored(tmp_path: Path, family: str) -> None:
    peers = make(tmp_path, family, PREFIX[family] + "ForMaskedLM")
    ids, chosen = random_ids(peers, 3, 10), torch.tensor([0, 7, 13, 29])
    with torch.no_grad():
        every = peers.ours(ids).scores["masked_lm"]
        some = peers.ours(ids, chosen=chosen).scores["masked_lm"]
    assert (every.flatten(0, 1)[chosen] - some).abs().max() <= 1e-6
