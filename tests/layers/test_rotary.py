"""Rotary positions, windows and gates on their own, and the fused rows of names."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bertworks.errors import ConfigError, WeightsError
from bertworks.layers import masks
from bertworks.layers.attention import Attention, Packing, Sight
from bertworks.layers.blocks import PreNormBlock
from bertworks.layers.feedforward import FeedForward, GatedFeedForward
from bertworks.layers.init import INITIALISERS, initialise, scaled
from bertworks.layers.rotary import Rotary
from bertworks.layers.stack import Scope, Stack
from bertworks.weights.names import NameTable, fused


@pytest.mark.parametrize("theta", [10_000.0, 160_000.0, 50.0])
@pytest.mark.parametrize("depth", [2, 8, 64])
def test_rotation_equals_transformers(theta: float, depth: int) -> None:
    from transformers import ModernBertConfig
    from transformers.models.modernbert.modeling_modernbert import ModernBertRotaryEmbedding, apply_rotary_pos_emb

    table = {"rope_type": "default", "rope_theta": theta}
    config = ModernBertConfig(
        hidden_size=2 * depth, num_attention_heads=2, num_hidden_layers=1, rope_parameters={"full_attention": table}
    )
    positions = torch.stack([torch.arange(5), torch.tensor([0, 100, 4095, 8191, 3])])
    query, key = torch.randn(2, 2, 5, depth), torch.randn(2, 2, 5, depth)
    cos, sin = ModernBertRotaryEmbedding(config)(query, positions, "full_attention")
    rotation = Rotary(depth, theta)(positions)
    for ours, theirs in zip(
        (rotation.turn(query), rotation.turn(key)), apply_rotary_pos_emb(query, key, cos, sin), strict=True
    ):
        assert (ours - theirs).abs().max() <= 1e-6
    assert torch.equal(rotation.cos[:, 0], cos)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 4000), st.integers(1, 16))
def test_a_product_depends_on_the_distance_alone(i: int, j: int, shift: int, half: int) -> None:
    rotary = Rotary(2 * half)
    q, k = torch.randn(1, 1, 2, 2 * half).double().split(1, dim=2)

    def product(a: int, b: int) -> float:
        at = rotary(torch.tensor([[a, b]]))
        return float((at.turn(torch.cat((q, q), 2))[0, 0, 0] * at.turn(torch.cat((k, k), 2))[0, 0, 1]).sum())

    assert product(i, j) == pytest.approx(product(i + shift, j + shift), abs=2e-3 * (1 + float(q.norm() * k.norm())))
    assert product(i, i) == pytest.approx(float((q * k).sum()), abs=1e-4 * (1 + float(q.norm() * k.norm())))


def test_rates_stay_exact_through_half_precision_copies_and_devices() -> None:
    from copy import deepcopy

    rotary = Rotary(16, 160_000.0)
    wanted = rotary.rates.clone()
    at = torch.tensor([[8191]])
    exact = rotary(at)
    for one in (rotary.to(torch.bfloat16), deepcopy(rotary).half().float(), Rotary(16, 160_000.0).to("meta").to_empty(
        device="cpu")):  # fmt: skip
        assert torch.equal(one.rates, wanted)
        assert torch.equal(one(at).cos, exact.cos)
    assert not rotary.state_dict()
    half = torch.randn(1, 1, 1, 16, dtype=torch.bfloat16)
    assert exact.turn(half).dtype == torch.bfloat16
    assert (exact.turn(half.float()) - exact.turn(half).float()).abs().max() < 0.02
    with pytest.raises(ConfigError, match="a head has 5"):
        Rotary(5)


@given(st.integers(1, 40), st.integers(0, 40))
def test_windows_equal_transformers_overlay(length: int, reach: int) -> None:
    from transformers.masking_utils import sliding_window_bidirectional_overlay

    sees = sliding_window_bidirectional_overlay(reach)
    wanted = [[sees(0, 0, i, j) for j in range(length)] for i in range(length)]
    made = masks.window(length, reach)
    if made is None:
        assert all(map(all, wanted))
    else:
        assert not all(map(all, wanted))
        assert made[0, 0].tolist() == wanted


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(0, 6),
    st.booleans(),
)
def test_packed_windows_hold_within_each_sequence(rows: list[list[int]], reach: int, holes: bool) -> None:
    """Against the plain way: the row's window and the block-diagonal mask."""
    numbers = [[n for n, size in enumerate(row, 1) for _ in range(size)] for row in rows]
    length = max(1, *map(len, numbers))
    sequences = torch.tensor([row + [0] * (length - len(row)) for row in numbers])
    if holes:
        sequences = sequences * (torch.rand(sequences.shape) < 0.7)
    if not sequences.any():
        return
    layer, x = Attention(8, heads=2), torch.randn(*sequences.shape, 8)
    real = sequences > 0
    plain = Sight(masks.block_diagonal(sequences)).within(reach, length, x.device)
    packed = Sight(packing=Packing.of(sequences)).within(reach, length, x.device)
    layer.way = "fused"
    wanted = layer(x, plain)[0][real]
    layer.way = "packed"
    assert (layer(x, packed)[0][real] - wanted).abs().max() <= 1e-5


def test_short_sequences_have_no_mask_made() -> None:
    sequences = torch.tensor([[1, 1, 1, 2, 2, 2, 2, 2]])
    packing = Packing.of(sequences).within(2, 8)
    assert packing.masks[0] is None
    assert packing.masks[1] is not None
    assert packing.masks[1].shape == (1, 1, 5, 5)
    sight = Sight(masks.padding(sequences > 1))
    assert sight.within(7, 8, sequences.device) is sight


def test_scopes_by_layer() -> None:
    near, far = Scope(Rotary(4), reach=1), Scope()
    blocks = [PreNormBlock(Attention(8, heads=2), FeedForward(8, inner=16)) for _ in range(2)]
    stack = Stack(blocks, scopes=[near, near])
    x = torch.randn(1, 6, 8, requires_grad=True)
    stack(x).last[0, 0].sum().backward()
    assert x.grad is not None
    seen = x.grad[0].abs().sum(1) > 0
    assert seen.tolist() == [True, True, True, False, False, False]  # two layers of one to either side
    with torch.no_grad():
        plain = Stack(blocks, scopes=[far, far])
        there = plain(x).last
        assert (plain(x.flip(1)).last.flip(1) - there).abs().max() < 1e-5  # without positions order is nothing
        stack = Stack(blocks, scopes=[Scope(Rotary(4))] * 2)
        turned = stack(x).last
        assert (turned - there).abs().max() > 1e-3
        shifted = stack(x, positions=torch.arange(50, 56)[None]).last
        assert (shifted - turned).abs().max() < 1e-5  # distances alone matter
    with pytest.raises(ConfigError, match="1 scopes for 2 layers"):
        Stack(blocks, scopes=[far])


@pytest.mark.parametrize("bias", [False, True])
def test_gated_feedforward_by_its_formula(bias: bool) -> None:
    part, x = GatedFeedForward(6, 10, "silu", bias), torch.randn(2, 3, 6)
    both = nn.functional.linear(x, part.up.weight, part.up.bias)
    wanted = nn.functional.linear(nn.functional.silu(both[..., :10]) * both[..., 10:], part.down.weight, part.down.bias)
    assert torch.allclose(part(x), wanted, atol=1e-6)
    assert (part.up.bias is None) is not bias


@pytest.mark.parametrize("bias", [False, True])
def test_attention_without_biases_joins_and_converts(bias: bool) -> None:
    layer, x = Attention(8, heads=2, bias=bias), torch.randn(2, 5, 8)
    with torch.no_grad():
        before = layer(x)[0]
        layer.join()
        assert (layer(x)[0] - before).abs().max() < 1e-6
        assert len(layer.state_dict()) == (8 if bias else 4)
        assert layer.double()(x.double())[0].dtype == torch.float64


@pytest.mark.parametrize("name", list(INITIALISERS))
def test_scaled_layers_are_drawn_narrower(name: str) -> None:
    plain, narrow = nn.Linear(200, 200), nn.Linear(200, 200)
    scaled(narrow, 0.25)
    for layer in (plain, narrow):
        initialise(layer, name, 0.02, torch.Generator().manual_seed(2))
    assert torch.allclose(plain.weight, 4 * narrow.weight, rtol=1e-4, atol=1e-7)


@given(st.integers(1, 4), st.integers(1, 5), st.sampled_from([torch.float32, torch.bfloat16, torch.float16]))
def test_fused_rows_there_and_back_bit_for_bit(parts: int, rows: int, dtype: torch.dtype) -> None:
    ours = [f"part.{i}" for i in range(parts)]
    table = NameTable("m.", [fused("m.whole", *ours)])
    whole = torch.randn(parts * rows, 3).to(dtype)
    read = table.read({"whole": whole}, {name: torch.Size((rows, 3)) for name in ours})
    assert list(read) == ours
    assert torch.equal(table.write(read)["m.whole"], whole)
    assert table.stored(table.canonical(["m.whole"])) == set(ours)
    assert {table.theirs(name) for name in ours} == {"m.whole"}


def test_a_fused_matrix_that_does_not_split_evenly_is_named() -> None:
    table = NameTable("", [fused("qkv", "q", "k", "v")])
    with pytest.raises(WeightsError, match=r"'qkv' is \(7, 2\), the model's q wants \(2, 2\) of it, one of 3"):
        table.read({"qkv": torch.ones(7, 2)}, {name: torch.Size((2, 2)) for name in "qkv"})
