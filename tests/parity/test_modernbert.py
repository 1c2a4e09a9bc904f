"""What ModernBERT alone has: windows, kinds of layers, biases or none, its files old and new, its first values."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from bertworks.errors import ConfigError, WeightsError
from bertworks.folders import new_folder
from bertworks.layers.attention import WAYS
from bertworks.layers.init import initialise
from bertworks.models import ARCHITECTURES, preset
from bertworks.models.config import from_hf, to_hf
from bertworks.models.folder import load_model, write_model
from bertworks.models.modernbert import MODERNBERT
from bertworks.models.modernbert_config import ModernBertConfig

from .peers import difference, make, random_ids

CLOSE = 1e-5
FULL, SLIDING = "full_attention", "sliding_attention"
CLASSES = [
    "ModernBertForMaskedLM",
    "ModernBertForSequenceClassification",
    "ModernBertForTokenClassification",
    "ModernBertForQuestionAnswering",
    "ModernBertForMultipleChoice",
]
EVERY_BIAS = {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "every bias": EVERY_BIAS,
    "attention bias": {"attention_bias": True},
    "feed-forward bias": {"mlp_bias": True},
    "norm bias": {"norm_bias": True},
    "head bias and activation": {"classifier_bias": True, "classifier_activation": "silu"},
    "no decoder bias": {"decoder_bias": False},
    "mean": {"classifier_pooling": "mean"},
    "all global": {"global_attn_every_n_layers": 1},
    "all types by name": {"layer_types": [SLIDING, FULL, SLIDING]},
    "all local": {"layer_types": [SLIDING] * 3},
    "other thetas": {
        "rope_parameters": {
            FULL: {"rope_type": "default", "rope_theta": 500.0},
            SLIDING: {"rope_type": "default", "rope_theta": 77.0},
        }
    },
    "old thetas": {"global_rope_theta": 300.0, "local_rope_theta": 20.0},
    "odd window": {"local_attention": 5},
    "window of one": {"local_attention": 1},
    "no padding id": {"pad_token_id": None},
}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", CLASSES)
def test_every_option_in_every_class_with_the_folder_written_again(tmp_path: Path, name: str, variant: str) -> None:
    peers = make(tmp_path / "theirs", "modernbert", name, **VARIANTS[variant])
    ids = random_ids(peers, 4, 19)
    mask = torch.arange(19) < torch.tensor([19, 12, 3, 1])[:, None]
    if name.endswith("MultipleChoice"):
        ids, mask = ids.view(2, 2, -1), mask.view(2, 2, -1)
    with torch.no_grad():
        theirs, ours = peers.both(ids, mask)
    assert difference(theirs, ours, peers.description.heads, mask) <= CLOSE
    with new_folder(tmp_path / "ours") as folder:
        write_model(folder, peers.ours, peers.description)
    back, info = getattr(transformers, name).from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    for key in ("layer_types", "rope_parameters", "local_attention", "classifier_pooling", *EVERY_BIAS):
        assert getattr(back.config, key) == getattr(peers.theirs.config, key)
    with torch.no_grad():
        again = back(input_ids=ids, attention_mask=mask.long())
    if "logits" in again:
        kept = mask if again.logits.shape[:2] == mask.shape else slice(None)
        assert torch.equal(again.logits[kept], theirs.logits[kept])
    assert load_model(tmp_path / "ours")[1].config == peers.description.config


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize(("window", "length"), [(128, 65), (128, 66), (128, 300), (6, 5)])
def test_long_texts_in_transformers_own_fast_way(tmp_path: Path, way: str, window: int, length: int) -> None:
    """Where the window covers the text and where it does not, against sdpa."""
    peers = make(tmp_path, "modernbert", "ModernBertForMaskedLM", local_attention=window, max_position_embeddings=512)
    peers.theirs.set_attn_implementation("sdpa")
    peers.ours.encoder.way = way
    ids = random_ids(peers, 2, length)
    mask = torch.ones_like(ids, dtype=torch.bool)
    for real in (None, mask & (torch.arange(length) < torch.tensor([length, 5])[:, None])):
        with torch.no_grad():
            theirs = peers.theirs(input_ids=ids, attention_mask=None if real is None else real.long()).logits
            ours = peers.ours(ids, real=real).scores["masked_lm"]
        kept = mask if real is None else real
        assert (theirs - ours)[kept].abs().max() <= CLOSE


@pytest.mark.parametrize("way", list(WAYS))
def test_padding_among_the_tokens_counts_as_distance(tmp_path: Path, way: str) -> None:
    peers = make(tmp_path, "modernbert", "ModernBertModel")
    ids, mask = random_ids(peers, 5, 30), torch.rand(5, 30) < 0.6
    mask[0, 3], mask[1] = True, torch.arange(30) >= 11
    peers.ours.encoder.way = way
    with torch.no_grad():
        theirs = peers.theirs(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        ours = peers.ours(ids, real=mask).last
    assert (theirs - ours)[mask].abs().max() <= CLOSE


@pytest.mark.parametrize("way", list(WAYS))
def test_gradients_in_bf16_are_near_transformers_in_bf16(tmp_path: Path, way: str) -> None:
    peers = make(tmp_path, "modernbert", "ModernBertForMaskedLM", **EVERY_BIAS)
    ours, _ = load_model(tmp_path, dtype=torch.bfloat16)
    ours.train().encoder.way = way
    theirs = peers.theirs.to(torch.bfloat16).train()
    ids, labels = random_ids(peers, 4, 24), random_ids(peers, 4, 24)
    mask = torch.arange(24) < torch.tensor([24, 9, 24, 2])[:, None]
    for scores in (
        theirs(input_ids=ids, attention_mask=mask.long()).logits,
        ours(ids, real=mask).scores["masked_lm"],
    ):
        torch.nn.functional.cross_entropy(scores[mask].float(), labels[mask]).backward()
    table = MODERNBERT.names(peers.description.config, ("masked_lm",))
    written = table.write({name: weight.grad for name, weight in ours.named_parameters()})
    for name, weight in theirs.named_parameters():
        a, b = weight.grad.float().flatten(), written[name].float().flatten()
        assert torch.nn.functional.cosine_similarity(a, b, dim=0) > 0.98, name
        assert 0.9 < float(a.norm() / b.norm()) < 1.1, name


def test_positions_are_reckoned_once_for_each_kind_of_layer(tmp_path: Path) -> None:
    peers = make(tmp_path, "modernbert", "ModernBertModel", num_hidden_layers=7)
    calls, sights = [], []
    for scope in set(peers.ours.encoder.stack.scopes):
        scope.register_forward_hook(lambda *_: calls.append(1))
    for block in peers.ours.encoder.stack.blocks:
        block.attention.register_forward_pre_hook(lambda _, given: sights.append(given[1]))
    peers.ours(random_ids(peers, 2, 9))
    assert len(calls) == 2
    assert len({id(sight.rotation) for sight in sights}) == 2
    assert [sight.mask is None for sight in sights] == [True, False] * 3 + [True]
    sights.clear()
    peers.ours(random_ids(peers, 2, 4))
    assert all(sight.mask is None for sight in sights)  # the window is the whole text: no mask is made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", ["eager", "fused"])
def test_what_is_traced_on_a_short_text_has_its_windows_on_a_long_one(tmp_path: Path, way: str) -> None:
    """As exports are made: on the short text no window is needed."""
    peers = make(tmp_path, "modernbert", "ModernBertForMaskedLM")
    peers.ours.encoder.way = way

    class Bare(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = peers.ours

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.model(ids).scores["masked_lm"]

    with torch.no_grad():
        traced = torch.jit.trace(Bare(), random_ids(peers, 2, 3), check_trace=False)
        ids = random_ids(peers, 3, 30)
        assert (traced(ids) - peers.theirs(input_ids=ids).logits).abs().max() <= CLOSE


# -- config.json -----------------------------------------------------------------------------------------


def of_file(**file: Any) -> ModernBertConfig:
    return from_hf(ModernBertConfig, MODERNBERT.keys, file)


def test_a_file_that_says_nothing_is_the_published_base_size() -> None:
    assert of_file() == ModernBertConfig() == preset("answerdotai/ModernBERT-base")[1]
    theirs = transformers.ModernBertConfig()
    ours = transformers.ModernBertConfig(**to_hf(ModernBertConfig(), MODERNBERT.keys))
    for key in ("layer_types", "rope_parameters", "local_attention", "norm_eps", "vocab_size", "pad_token_id"):
        assert getattr(ours, key) == getattr(theirs, key)


def test_layer_types_are_read_by_either_spelling() -> None:
    assert of_file(global_attn_every_n_layers=4).global_every == 4
    assert of_file(num_hidden_layers=4, layer_types=[FULL, SLIDING] * 2).global_every == 2
    assert of_file(num_hidden_layers=4, layer_types=[FULL] * 4).global_every == 1
    ambiguous = {"num_hidden_layers": 2, "layer_types": [FULL, SLIDING]}
    assert of_file(**ambiguous, global_attn_every_n_layers=5).global_every == 5  # of what fits, what is said
    assert of_file(**ambiguous, global_attn_every_n_layers=1).global_every == 2
    odd = [FULL, SLIDING, SLIDING, FULL, SLIDING]
    config = of_file(num_hidden_layers=5, layer_types=[*odd[:4], FULL])
    assert config.attends == (*odd[:4], FULL)
    assert to_hf(config, MODERNBERT.keys)["layer_types"] == [*odd[:4], FULL]
    with pytest.raises(ConfigError, match="each of 4 layers"):
        of_file(num_hidden_layers=4, layer_types=[SLIDING, FULL, FULL])
    with pytest.raises(ConfigError, match="layer_types"):
        ModernBertConfig().but(layers=2, layer_types=("full", "local"))


def test_thetas_are_read_by_either_spelling_and_other_rotations_refused() -> None:
    old = of_file(global_rope_theta=5.0, local_rope_theta=3.0)
    assert (old.rope_theta, old.local_rope_theta) == (5.0, 3.0)
    new = of_file(rope_parameters={FULL: {"rope_theta": 7.0}, SLIDING: None}, global_rope_theta=5.0)
    assert (new.rope_theta, new.local_rope_theta) == (7.0, 10_000.0)
    with pytest.raises(ConfigError, match="'yarn'"):
        of_file(rope_parameters={FULL: {"rope_type": "yarn", "rope_theta": 7.0}})
    with pytest.raises(ConfigError, match="'linear'"):
        of_file(rope_scaling={"rope_type": "linear", "factor": 2.0})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"segments": 2}, "no segments"),
        ({"pooling": "max"}, "pooling"),
        ({"global_every": 0}, "global_every"),
        ({"window": 0}, "window"),
        ({"rope_theta": 0.0}, "rope_theta"),
        ({"init_std": 0.0}, "init_std"),
        ({"feedforward_dropout": 1.0}, "feedforward_dropout"),
    ],
)
def test_what_no_modernbert_has_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        ModernBertConfig().but(**change)


def test_a_bias_that_the_configuration_denies_is_not_dropped_in_silence(tmp_path: Path) -> None:
    make(tmp_path, "modernbert", "ModernBertModel", attention_bias=True)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"attention_bias": False}))
    with pytest.raises(WeightsError, match=r"W\w+\.bias' is not part of this model"):
        load_model(tmp_path)


def test_a_fused_matrix_of_another_size_is_named(tmp_path: Path) -> None:
    make(tmp_path, "modernbert", "ModernBertModel")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"hidden_size": 12}))
    with pytest.raises(WeightsError, match=r"\(97, 24\)"):
        load_model(tmp_path)


# -- first values and dropout ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLASSES)
def test_first_values_are_as_wide_as_transformers(name: str) -> None:
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 6, "vocab_size": 500, "num_labels": 50}
    if name.endswith("QuestionAnswering"):
        sizes["num_labels"] = 2
    torch.manual_seed(3)
    theirs = getattr(transformers, name)(transformers.ModernBertConfig(**sizes, num_attention_heads=4, pad_token_id=0))
    config = of_file(**to_their_file(theirs))
    heads = MODERNBERT.shapes[name].heads
    model = MODERNBERT.build(config, heads)
    initialise(model, config.init, config.init_std, torch.Generator().manual_seed(1))
    ours = MODERNBERT.names(config, heads).write(model.state_dict())
    states = theirs.state_dict()
    for key, tensor in ours.items():
        if tensor.ndim == 1:
            assert torch.equal(tensor, states[key]), key
            continue
        want, got = float(states[key].std()), float(tensor.std())
        if tensor.numel() > 1000:
            assert math.isclose(want, got, rel_tol=0.04), key
            assert math.isclose(float(states[key].abs().max()), float(tensor.abs().max()), rel_tol=0.1), key
        else:
            assert 0.7 < got / want < 1.4, key


def to_their_file(theirs: Any) -> dict[str, Any]:
    return json.loads(theirs.config.to_json_string(use_diff=False))


def test_dropout_rates_fall_where_transformers_has_them() -> None:
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "feedforward_dropout": 0.3, "classifier_dropout": 0.4}
    config = ModernBertConfig(vocab_size=50, hidden_size=24, layers=2, heads=2, intermediate_size=30, pad_id=0, **rates)
    model = MODERNBERT.build(config, ("classify",))
    theirs = transformers.ModernBertForSequenceClassification(
        transformers.ModernBertConfig(**to_hf(config, MODERNBERT.keys))
    )
    layer, block = theirs.model.layers[1], model.encoder.stack.blocks[1]
    assert model.encoder.embeddings.dropout.rate == theirs.model.embeddings.drop.p == 0.1
    assert block.attention.dropout.rate == layer.attn.attention_dropout == 0.2
    assert block.attention.out_dropout.rate == layer.attn.out_drop.p == 0.2
    assert block.feedforward.dropout.rate == layer.mlp.drop.p == 0.3
    assert block.dropout.rate == 0.0
    assert model.heads["classify"].dropout.rate == theirs.drop.p == 0.4
    ids = torch.randint(1, 50, (2, 9))
    for way in WAYS:
        model.encoder.way = way
        model.eval()
        still = model(ids).last
        assert (model(ids).last - still).abs().max() == 0
        for part in (model.encoder.embeddings.dropout, block.attention.dropout, block.attention.out_dropout,
                     block.feedforward.dropout):  # fmt: skip
            part.train()
            assert (model(ids).last - still).abs().max() > 0
            part.eval()


def test_all_of_the_family_is_there() -> None:
    wanted = {name for name in dir(transformers) if name.startswith("ModernBertFor")} | {"ModernBertModel"}
    assert set(ARCHITECTURES["modernbert"].shapes) == wanted
