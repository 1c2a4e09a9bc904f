"""The formulas against what is built, and the reckoned costs against what is measured and published."""

from __future__ import annotations

import math

import pytest
import torch
import transformers

from bertworks.inspect import costs, parameters
from bertworks.layers.init import Unfilled
from bertworks.models import ARCHITECTURES, preset, preset_names
from bertworks.models.albert import AlbertConfig
from bertworks.models.config import to_hf
from bertworks.models.parts import Architecture

CASES = [(family, head) for family in ARCHITECTURES for head in ARCHITECTURES[family].heads]


@pytest.mark.parametrize("name", preset_names())
def test_formulas_equal_the_built_model(name: str) -> None:
    found = preset(name)
    assert found is not None
    family, config = found
    with Unfilled():
        model = family.build(config)
    summary = parameters.summary(parameters.parts(family.name, config))
    count = {
        part: sum(w.numel() for w in getattr(model.encoder, part).parameters()) if getattr(model.encoder, part) else 0
        for part in ("embeddings", "stack", "pooler")
    }
    assert count == {"embeddings": summary["embeddings"], "stack": summary["encoder"], "pooler": summary["pooler"]}
    assert summary["total"] == sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("family", "head"), CASES)
def test_formulas_of_heads(family: str, head: str, tied: bool) -> None:
    config = ARCHITECTURES[family].config().but(layers=2, labels=("a", "b", "c"), tied=tied)
    with Unfilled():
        model = ARCHITECTURES[family].build(config, (head,))
    summary = parameters.summary(parameters.parts(family, config, (head,)))
    assert summary["heads"] == sum(weight.numel() for weight in model.heads.parameters())


@pytest.mark.parametrize(
    "name",
    [
        "bert-base-uncased",
        "roberta-large",
        "efficient_mlm_m0.40",
        "albert-base-v2",
        "modernbert-base",
        "modernbert-large",
    ],
)
def test_counts_equal_transformers_own(name: str) -> None:
    found = preset(name)
    assert found is not None
    family, config = found
    settings = transformers.AutoConfig.for_model(family.name, **to_hf(config, family.keys))
    with torch.device("meta"):
        theirs = transformers.AutoModelForMaskedLM.from_config(settings)
        bare = transformers.AutoModel.from_config(settings)
    assert parameters.summary(parameters.parts(family.name, config))["total"] == sum(
        weight.numel() for weight in bare.parameters()
    )
    with_head = parameters.summary(parameters.parts(family.name, config, ("masked_lm",), pooler=False))
    assert with_head["total_with_heads"] == sum(weight.numel() for weight in theirs.parameters())


def test_albert_groups_count_every_block_of_their_own() -> None:
    config = AlbertConfig().but(layers=6, groups=3, inner_layers=2)
    with Unfilled():
        model = ARCHITECTURES["albert"].build(config)
    assert parameters.summary(parameters.parts("albert", config))["total"] == sum(w.numel() for w in model.parameters())


def test_published_arithmetic_of_bert_base() -> None:
    found = preset("bert-base-uncased")
    assert found is not None
    step = costs.flops_per_token(found[1], 512)["pretraining_step"]
    assert abs(step / 589e6 - 1) < 0.005


@pytest.mark.parametrize("name", ["bert-mini", "albert-base-v2", "efficient_mlm_m0.40", "modernbert-base"])
def test_arithmetic_equals_what_pytorch_counts(name: str) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    found = preset(name)
    assert found is not None
    family, config = found
    config = config.but(vocab_size=1000, pad_id=0, layers=min(12, config.layers))
    model = family.build(config, (), False).eval()
    model.encoder.way = "eager"
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.randint(1, 1000, (1, 64)))
    assert counter.get_total_flops() == 64 * costs.flops_per_token(config, 64)["forward"]


@pytest.mark.parametrize("family", [ARCHITECTURES[name] for name in ("bert", "roberta-prelayernorm", "modernbert")])
def test_memory_to_train_is_near_what_autograd_keeps(family: Architecture) -> None:
    found = preset("bert-mini")
    assert found is not None
    small = {name: getattr(found[1], name) for name in ("hidden_size", "layers", "heads", "intermediate_size")}
    config = family.config().but(vocab_size=1000, pad_id=1, dropout=0.0, attention_dropout=0.0, **small)
    model = family.build(config, (), False).train()
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    ids = torch.randint(1, 1000, (4, 128))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(ids)
    inside = config.intermediate_size * (4 if parameters.gated(config) else 2)
    maps = 128 * config.heads  # so short, attention's maps are kept
    reckoned = 4 * ids.numel() * config.layers * (costs.saved_per_token(config.hidden_size, inside) + maps)
    assert out.last.requires_grad
    assert math.isclose(sum(kept.values()), reckoned, rel_tol=0.1)
