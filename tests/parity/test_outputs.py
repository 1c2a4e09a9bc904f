"""Our models against transformers': outputs, hidden states, attention maps, in fp32 to 1e-5."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bertworks.errors import InputError

from .peers import AFTER_PADDING, CLASSES, FAMILIES, LENGTH, PREFIX, Peers, difference, make, random_ids

CLOSE = 1e-5


def inputs(peers: Peers, kind: str, length: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    ids = random_ids(peers, 4, length)
    if kind == "plain":
        return ids, None
    mask = torch.zeros(4, length, dtype=torch.bool)
    if kind == "padded":
        for row in range(4):
            mask[row, : max(1, length - row * length // 4)] = True
        ids[~mask] = peers.description.config.pad_id or 0
    else:  # random holes anywhere, also at the first token
        mask = torch.rand(4, length) < 0.6
        mask[torch.arange(4), torch.randint(length, (4,))] = True
        if peers.family == "modernbert" and peers.description.heads == ("classify",):
            mask[:, 0] = True  # it reads the first token, which might see nothing but padding
    return ids, mask


@pytest.mark.parametrize("length", [1, 7, LENGTH])
@pytest.mark.parametrize("kind", ["plain", "padded", "random"])
@pytest.mark.parametrize(("family", "name"), CLASSES)
def test_every_class_under_every_mask(tmp_path: Path, family: str, name: str, kind: str, length: int) -> None:
    peers = make(tmp_path, family, name)
    ids, mask = inputs(peers, kind, length)
    segments = None if family == "roberta" else torch.randint(2, ids.shape)
    if name.endswith("MultipleChoice"):
        ids, segments, mask = (None if x is None else x.view(2, 2, -1) for x in (ids, segments, mask))
    for mode in (False, True):  # train mode too: with dropout 0 nothing may change
        peers.theirs.train(mode)
        peers.ours.train(mode)
        with torch.no_grad():
            theirs, ours = peers.both(ids, mask, segments)
        real = mask if family == "modernbert" else None
        assert difference(theirs, ours, peers.description.heads, real) <= CLOSE


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_activation(tmp_path: Path, family: str, activation: str) -> None:
    peers = make(tmp_path, family, PREFIX[family] + "ForMaskedLM", hidden_act=activation)
    with torch.no_grad():
        theirs, ours = peers.both(random_ids(peers, 3, 11))
    assert difference(theirs, ours, ("masked_lm",)) <= CLOSE


@pytest.mark.parametrize(
    ("layers", "groups", "inner"), [(3, 1, 1), (3, 3, 1), (5, 2, 1), (6, 3, 2), (4, 1, 2), (7, 3, 1)]
)
def test_albert_groups(tmp_path: Path, layers: int, groups: int, inner: int) -> None:
    peers = make(
        tmp_path,
        "albert",
        "AlbertForPreTraining",
        num_hidden_layers=layers,
        num_hidden_groups=groups,
        inner_group_num=inner,
    )
    ids, mask = inputs(peers, "padded", 12)
    with torch.no_grad():
        theirs, ours = peers.both(ids, mask)
    assert difference(theirs, ours, peers.description.heads) <= CLOSE
    assert len(ours.maps) == layers * inner


# 1 is RoBERTa's own; a WordPiece vocabulary has its padding at 0.
@pytest.mark.parametrize("pad_id", [0, 1, 5])
@pytest.mark.parametrize("family", AFTER_PADDING)
def test_roberta_counts_positions_past_the_padding_id_wherever_padding_stands(
    tmp_path: Path, family: str, pad_id: int
) -> None:
    peers = make(tmp_path, family, PREFIX[family] + "Model", pad_token_id=pad_id)
    ids = torch.randint(6, 97, (3, 9))
    ids[0, 4:] = pad_id
    ids[1, :3] = pad_id
    ids[2, 4] = pad_id
    with torch.no_grad():
        theirs, ours = peers.both(ids, ids != pad_id)
    assert difference(theirs, ours, ()) <= CLOSE


@pytest.mark.parametrize("pad_id", [0, 1, 5])
@pytest.mark.parametrize("family", AFTER_PADDING)
def test_the_longest_text_is_the_positions_less_those_up_to_the_padding_id(
    tmp_path: Path, family: str, pad_id: int
) -> None:
    peers = make(tmp_path, family, PREFIX[family] + "Model", pad_token_id=pad_id, max_position_embeddings=20)
    longest = peers.description.config.max_length
    assert longest == 20 - pad_id - 1
    ids = torch.randint(6, 97, (2, longest + 1))
    with torch.no_grad():
        theirs, ours = peers.both(ids[:, :longest])
    assert difference(theirs, ours, ()) <= CLOSE
    with pytest.raises((IndexError, RuntimeError)):
        peers.theirs(ids)
    with pytest.raises(InputError, match="position 20 is outside the model's 20"):
        peers.ours(ids)


def test_the_last_hidden_state_of_a_pre_norm_model_is_the_one_that_heads_read(tmp_path: Path) -> None:
    """Its norm closes the stack; the states between the layers are those on the residual path, not normed."""
    peers = make(tmp_path, "roberta-prelayernorm", "RobertaPreLayerNormModel")
    with torch.no_grad():
        theirs, ours = peers.both(random_ids(peers, 2, 9))
    assert torch.equal(theirs.hidden_states[-1], theirs.last_hidden_state)
    assert torch.equal(ours.hidden[-1], ours.last)
    last_block = peers.ours.encoder.stack.blocks[-1]
    before, _ = last_block(ours.hidden[-2])
    assert torch.allclose(peers.ours.encoder.stack.final_norm(before), ours.last, atol=CLOSE)
    assert not torch.allclose(before, ours.last, atol=0.1)


@pytest.mark.parametrize("family", FAMILIES)
def test_gelu_of_roberta_head_and_other_published_constants(family: str) -> None:
    from bertworks.models import ARCHITECTURES

    config = ARCHITECTURES[family].config()
    assert config.norm_eps == (1e-5 if family in (*AFTER_PADDING, "modernbert") else 1e-12)
    assert config.activation == ("gelu-tanh" if family == "albert" else "gelu")
    none = family in ("albert", "modernbert")
    assert (config.dropout, config.attention_dropout) == ((0.0, 0.0) if none else (0.1, 0.1))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("length", [1, LENGTH])
def test_bf16_stays_near_fp32(tmp_path: Path, family: str, length: int) -> None:
    from bertworks.models.folder import load_model

    peers = make(tmp_path, family, PREFIX[family] + "Model")
    half, _ = load_model(tmp_path, dtype=torch.bfloat16)
    ids = random_ids(peers, 2, length)
    with torch.no_grad():
        exact, rough = peers.ours(ids).last, half(ids).last
    assert rough.dtype == torch.bfloat16
    assert torch.nn.functional.cosine_similarity(exact, rough.float(), dim=-1).min() > 0.995
