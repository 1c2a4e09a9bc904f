"""The parts on their own: masks compose, positions count, embeddings refuse, initialisers draw as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import nn

from bertworks.errors import ConfigError, InputError, WeightsError
from bertworks.layers import masks
from bertworks.layers.activations import ACTIVATIONS, activation
from bertworks.layers.attention import Attention, Packing, Sight
from bertworks.layers.blocks import PostNormBlock, PreNormBlock
from bertworks.layers.embeddings import Embeddings, give
from bertworks.layers.feedforward import FeedForward
from bertworks.layers.init import INITIALISERS, Unfilled, initialise
from bertworks.layers.positions import (
    LearnedPositions,
    RelativePositions,
    SinusoidalPositions,
    after_padding,
    counted,
    restarting,
)
from bertworks.layers.stack import SharedStack, Stack
from bertworks.weights.matrix import Matrix, read_matrix


def test_masks_say_who_sees_whom() -> None:
    real = torch.tensor([[True, True, False]])
    assert masks.padding(real)[0, 0].tolist() == [[True, True, False]]
    assert masks.causal(3)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert masks.prefix(torch.tensor([2]), 3)[0, 0].int().tolist() == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]
    assert masks.block_diagonal(torch.tensor([[1, 1, 2]]))[0, 0].int().tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=9), st.integers(0, 3))
def test_packing_covers_every_token_once(sizes: list[int], padding: int) -> None:
    row = [number for number, size in enumerate(sizes, 1) for _ in range(size)] + [0] * padding
    if not row:
        return
    sequences = torch.tensor([row, row[::-1]])
    groups = Packing.of(sequences).groups
    seen = sorted(position for group in groups for position in group.flatten().tolist())
    assert seen == sequences.flatten().nonzero().flatten().tolist()
    for group in groups:
        for sequence in group:
            assert sequences.flatten()[sequence].unique().numel() == 1
            assert (sequence.diff() > 0).all()


def test_positions() -> None:
    ids = torch.tensor([[5, 6, 1, 1], [5, 6, 7, 8]])
    assert counted(ids).tolist() == [[0, 1, 2, 3]]
    assert after_padding(ids, pad_id=1).tolist() == [[2, 3, 1, 1], [2, 3, 4, 5]]
    sequences = torch.tensor([[1, 1, 2, 2, 2, 0]])
    assert restarting(sequences).tolist() == [[0, 1, 0, 1, 2, 0]]
    assert counted(sequences, sequences).tolist() == [[0, 1, 0, 1, 2, 0]]
    packed = torch.tensor([[5, 6, 5, 6, 7, 1]])
    assert after_padding(packed, sequences, pad_id=1).tolist() == [[2, 3, 2, 3, 4, 1]]


@given(st.integers(1, 40), st.integers(2, 33))
def test_sinusoids_by_their_formula(length: int, width: int) -> None:
    table = SinusoidalPositions(length, width)(torch.arange(length)[None])[0]
    for position in (0, length // 2, length - 1):
        for column in range(width):
            angle = position / 10_000 ** ((column - column % 2) / width)
            wanted = math.sin(angle) if column % 2 == 0 else math.cos(angle)
            assert abs(float(table[position, column]) - wanted) < 1e-4


@pytest.mark.parametrize("both_directions", [True, False])
def test_relative_buckets_equal_t5s(both_directions: bool) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    ours = RelativePositions(4, buckets=32, furthest=128, both_directions=both_directions)
    distance = torch.arange(-300, 301)
    theirs = T5Attention._relative_position_bucket(distance, both_directions, 32, 128)
    assert torch.equal(ours.bucket(distance), theirs)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("gelu", "gelu"), ("gelu-tanh", "gelu_new"), ("relu", "relu"), ("silu", "silu")]
)
def test_activations_equal_transformers(ours: str, theirs: str) -> None:
    from transformers.activations import ACT2FN

    x = torch.linspace(-6, 6, 1001)
    assert (activation(ours)(x) - ACT2FN[theirs](x)).abs().max() < 1e-6
    assert (ACTIVATIONS["gelu"](x) - ACTIVATIONS["gelu-tanh"](x)).abs().max() > 1e-4


@pytest.mark.parametrize("name", list(INITIALISERS))
def test_initialisers(name: str) -> None:
    part = nn.Sequential(nn.Linear(300, 300), nn.LayerNorm(300), nn.Embedding(50, 300, padding_idx=3))
    initialise(part, name, std=0.02, generator=torch.Generator().manual_seed(5))
    weight = part[0].weight
    wanted = {"normal": 0.02, "uniform": 0.02, "truncated-normal": 0.02 * 0.8796}[name]
    assert abs(float(weight.detach().std()) - wanted) < 3e-4
    if name == "truncated-normal":
        assert float(weight.detach().abs().max()) <= 0.04
    assert not part[0].bias.any()
    assert bool((part[1].weight == 1).all())
    assert not part[2].weight[3].any()
    again = nn.Linear(300, 300)
    initialise(again, name, std=0.02, generator=torch.Generator().manual_seed(5))
    assert torch.equal(again.weight, weight)


def test_unfilled_draws_nothing() -> None:
    state = torch.get_rng_state()
    with Unfilled():
        nn.Sequential(nn.Linear(3, 3), nn.Embedding(4, 3, padding_idx=0), nn.LayerNorm(3))
    assert torch.equal(state, torch.get_rng_state())


def test_given_embeddings_stay_as_given_and_frozen() -> None:
    part = Embeddings(5, 3, LearnedPositions(7, 3), segments=2, width=6)
    matrix = torch.arange(15.0).view(5, 3)
    give(part.tokens, matrix, freeze=True)
    initialise(part)
    assert torch.equal(part.tokens.weight, matrix)
    part(torch.tensor([[1, 2]]), positions=torch.tensor([[0, 1]])).sum().backward()
    assert part.tokens.weight.grad is None
    assert part.projection is not None
    assert part.projection.weight.grad is not None
    with pytest.raises(ConfigError, match=r"\(4, 3\)"):
        give(part.tokens, torch.ones(4, 3))


def test_embeddings_name_what_is_out_of_range() -> None:
    part = Embeddings(5, 3, LearnedPositions(7, 3), segments=2)
    where = torch.tensor([[0, 1]])
    with pytest.raises(InputError, match="token id 5 is outside"):
        part(torch.tensor([[1, 5]]), positions=where)
    with pytest.raises(InputError, match="token id -1 is outside"):
        part(torch.tensor([[1, -1]]), positions=where)
    with pytest.raises(InputError, match="segment 2"):
        part(torch.tensor([[1, 2]]), torch.tensor([[0, 2]]), where)
    with pytest.raises(InputError, match="position 7"):
        part(torch.tensor([[1, 2]]), positions=torch.tensor([[0, 7]]))


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ConfigError, match="5 attention heads do not divide the width 8"):
        Attention(8, heads=5)
    with pytest.raises(ConfigError, match="did you mean 'fused'"):
        Attention(8, heads=2, way="fusd")


def test_joined_projections_change_nothing_and_survive_copies_and_training() -> None:
    from copy import deepcopy

    layer = Attention(8, heads=2)
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        before = layer(x)[0]
        layer.join()
        assert (layer(x)[0] - before).abs().max() < 1e-6
        twin = deepcopy(layer)
        twin.query.weight.add_(1.0)  # the copy's joint tensor is stale: it must not be used
        apart = Attention(8, heads=2)
        apart.load_state_dict(twin.state_dict())
        assert (twin(x)[0] - apart(x)[0]).abs().max() < 1e-6
        layer.key.weight.mul_(2.0)  # in place, the joint tensor follows
        apart.load_state_dict(layer.state_dict())
        assert (layer(x)[0] - apart(x)[0]).abs().max() < 1e-6
        layer.load_state_dict({name: torch.randn_like(w) for name, w in layer.state_dict().items()}, assign=True)
        apart.load_state_dict(layer.state_dict())
        assert (layer(x)[0] - apart(x)[0]).abs().max() < 1e-5
        layer.double()
        assert layer(x.double())[0].dtype == torch.float64
    out = layer.float()(x)[0].sum()
    out.backward()
    assert layer.query.weight.grad is not None
    assert layer.key.bias.grad is not None


@pytest.mark.parametrize("block", [PostNormBlock, PreNormBlock])
@pytest.mark.parametrize("shared", [False, True])
def test_stacks_of_either_block_with_relative_positions(block: type, shared: bool) -> None:
    def make() -> PostNormBlock:
        return block(Attention(8, heads=2), FeedForward(8, inner=16), dropout=0.0)

    bias, norm = RelativePositions(heads=2, buckets=8), nn.LayerNorm(8)
    stack = SharedStack(make, layers=5, groups=2) if shared else Stack([make() for _ in range(5)])
    stack.score_bias, stack.final_norm = bias, norm
    x = torch.randn(2, 6, 8, requires_grad=True)
    out = stack(x, Sight(masks.causal(6)), keep_hidden=True)
    assert len(out.hidden) == 6
    assert torch.equal(out.hidden[-1], out.last)
    (out.last[:, 2] ** 3).sum().backward()
    assert x.grad is not None
    assert not x.grad[:, 3:].any()  # causal: what comes later has no say
    assert bias.bias.weight.grad is not None
    assert bias.bias.weight.grad.any()
    with pytest.raises(ConfigError, match="groups"):
        SharedStack(make, layers=2, groups=3)


def test_matrices_from_every_format(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    rows = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    np.save(folder / "m.npy", rows)
    save_file({"m": torch.from_numpy(rows)}, folder / "m.safetensors")
    lines = [
        f"{word} {' '.join(map(str, row))}" for word, row in zip(["the", "of . .", "猫"], rows.tolist(), strict=True)
    ]
    (folder / "glove.txt").write_text("\n".join(lines) + "\n", encoding="utf8")
    (folder / "w2v.vec").write_text("3 4\n" + "\n".join(lines), encoding="utf8")
    for name in ("m.npy", "m.safetensors"):
        assert torch.equal(read_matrix(folder / name).rows, torch.from_numpy(rows))
        assert read_matrix(folder / name).words is None
    for name in ("glove.txt", "w2v.vec"):
        matrix = read_matrix(folder / name)
        assert matrix.words == ["the", "of . .", "猫"]
        assert np.allclose(matrix.rows.numpy(), rows)
    made, found = read_matrix(folder / "w2v.vec").for_vocabulary({"[PAD]": 0, "Ġthe": 1, "猫": 2, "zzz": 3})
    assert found == 2
    assert torch.equal(made[2], torch.from_numpy(rows[2]))
    with pytest.raises(InputError, match="3 rows"):
        Matrix(torch.ones(3, 4)).for_vocabulary({"a": 0})


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"the 1 2\nof 1 x\n", "line 2"),
        ("a.txt", b"the 1 2\nof 1\n", "line 2"),
        ("a.txt", b"", "no vectors"),
        ("a.txt", b"the 1 nan\n", "not finite"),
        ("a.npy", b"nonsense", "not a NumPy array"),
        ("a.safetensors", b"nonsense", "not a whole safetensors file"),
    ],
)
def test_broken_matrices_are_named(tmp_path: object, name: str, content: bytes, says: str) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / name
    path.write_bytes(content)
    with pytest.raises(WeightsError, match=says):
        read_matrix(path)
