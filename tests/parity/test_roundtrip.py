"""Weights there and back, bit for bit: transformers -> ours -> transformers, and ours -> transformers -> ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from bertworks.folders import new_folder
from bertworks.layers.init import initialise
from bertworks.models import ARCHITECTURES
from bertworks.models.folder import Description, load_model, write_model

from .peers import CLASSES, FAMILIES, PREFIX, difference, make, random_ids


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(a[key].dtype == b[key].dtype and torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize(("family", "name"), CLASSES)
def test_both_ways(tmp_path: Path, family: str, name: str) -> None:
    over = {"num_hidden_groups": 3} if family == "albert" else {}
    peers = make(tmp_path / "theirs", family, name, **over)
    with new_folder(tmp_path / "ours") as folder:
        write_model(folder, peers.ours, peers.description)
    written = load_file(tmp_path / "ours/model.safetensors")
    assert same(load_file(tmp_path / "theirs/model.safetensors"), written)

    back, info = getattr(transformers, name).from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert same(dict(peers.theirs.state_dict()), dict(back.state_dict()))
    assert back.config.num_labels == peers.theirs.config.num_labels

    again, description = load_model(tmp_path / "ours")
    assert same(dict(peers.ours.state_dict()), dict(again.state_dict()))
    assert description.config == peers.description.config


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_born_here_is_one_of_transformers(tmp_path: Path, family: str) -> None:
    """From a configuration alone, as pre-training makes it: no file of theirs has ever been beside it."""
    architecture = ARCHITECTURES[family]
    config = architecture.config().but(
        vocab_size=97, hidden_size=24, layers=3, heads=3, intermediate_size=37, positions=40, pad_id=0
    )
    config = config.but(window=6) if family == "modernbert" else config.but(segments=2)
    if family == "albert":
        config = config.but(embedding_size=16)
    model = architecture.build(config, ("masked_lm",)).eval()
    initialise(model, config.init, 0.3, torch.Generator().manual_seed(6))
    with new_folder(tmp_path / "born") as folder:
        write_model(folder, model, Description(architecture, config, None))
    theirs, info = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "born", output_loading_info=True)
    assert type(theirs).__name__ == PREFIX[family] + "ForMaskedLM"
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert sum(w.numel() for w in theirs.parameters()) == sum(w.numel() for w in model.parameters())
    ids = torch.randint(1, 97, (3, config.max_length))
    ids[1, 20:] = 0
    with torch.no_grad():
        wanted = theirs(ids, attention_mask=(ids != 0).long()).logits
        given = model(ids, real=ids != 0).scores["masked_lm"]
    assert (wanted - given)[ids != 0].abs().max() <= 1e-5
    assert load_model(tmp_path / "born")[1].config == config


@pytest.mark.parametrize("family", FAMILIES)
def test_old_spellings_prefixes_and_buffers(tmp_path: Path, family: str) -> None:
    """gamma and beta, no prefix, position_ids, a tied decoder written out: all the same model."""
    peers = make(tmp_path, family, PREFIX[family] + "ForMaskedLM")
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    prefix = {"modernbert": "model"}.get(family, family.replace("-", "_"))
    embedding = next(tensor for name, tensor in tensors.items() if len(tensor) == 97 and "embedding" in name)
    decoder = {"bert": "cls.predictions.", "albert": "predictions.", "modernbert": ""}.get(family, "lm_head.")
    tensors[f"{decoder}decoder.weight"] = embedding.clone()
    if family != "modernbert":
        tensors[f"{decoder}decoder.bias"] = tensors[f"{decoder}bias"].clone()
        tensors[f"{prefix}.embeddings.position_ids"] = torch.arange(40)[None]
    old = {}
    for key, tensor in tensors.items():
        key = key.removeprefix(f"{prefix}.")
        if "norm" in key.lower():
            key = key.replace(".weight", ".gamma").replace(".bias", ".beta")
        old[key] = tensor
    save_file(old, path, metadata={"format": "pt"})
    again, description = load_model(tmp_path)
    assert description.config.tied
    assert same(dict(peers.ours.state_dict()), dict(again.state_dict()))


@pytest.mark.parametrize("family", FAMILIES)
def test_an_untied_decoder_is_kept_apart_as_transformers_does(tmp_path: Path, family: str) -> None:
    peers = make(tmp_path / "a", family, PREFIX[family] + "ForMaskedLM", tie_word_embeddings=False)
    # Untied, transformers keeps a second bias that nothing reads; ours is the one that is read.
    states = peers.theirs.state_dict()
    read = next(key for key in states if key.endswith("decoder.bias"))
    if read != "decoder.bias":
        states[read.replace("decoder.bias", "bias")].copy_(states[read])
    ids = random_ids(peers, 2, 8)
    with torch.no_grad():
        theirs, ours = peers.both(ids)
    assert difference(theirs, ours, ("masked_lm",)) <= 1e-5
    assert not peers.description.config.tied
    with new_folder(tmp_path / "b") as folder:
        write_model(folder, peers.ours, peers.description)
    back = getattr(transformers, PREFIX[family] + "ForMaskedLM").from_pretrained(tmp_path / "b")
    assert same(dict(peers.theirs.state_dict()), dict(back.state_dict()))


def test_a_decoder_that_differs_is_not_tied_though_the_config_says_so(tmp_path: Path) -> None:
    peers = make(tmp_path, "bert", "BertForMaskedLM")
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["cls.predictions.decoder.weight"] = torch.randn(97, 24)
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.warns(match="kept apart"):
        ours, _ = load_model(tmp_path)
    theirs = transformers.BertForMaskedLM.from_pretrained(tmp_path)
    ids = random_ids(peers, 2, 8)
    with torch.no_grad():
        gap = (theirs(ids).logits - ours(ids).scores["masked_lm"]).abs().max()
    assert gap <= 1e-5


def test_shards_and_one_file_are_the_same_model(tmp_path: Path) -> None:
    peers = make(tmp_path / "one", "bert", "BertForPreTraining")
    peers.theirs.save_pretrained(tmp_path / "many", max_shard_size="20KB")
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 2
    again, _ = load_model(tmp_path / "many")
    assert same(dict(peers.ours.state_dict()), dict(again.state_dict()))

    from bertworks.weights.files import write_tensors

    (tmp_path / "ours").mkdir()
    write_tensors(tmp_path / "ours", load_file(tmp_path / "one/model.safetensors"), shard_bytes=20_000)
    (tmp_path / "ours/config.json").write_text((tmp_path / "one/config.json").read_text())
    assert len(json.loads((tmp_path / "ours/model.safetensors.index.json").read_text())["weight_map"]) > 20
    back = transformers.BertForPreTraining.from_pretrained(tmp_path / "ours")
    assert same(dict(peers.theirs.state_dict()), dict(back.state_dict()))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_head_the_weights_lack_starts_fresh_and_says_so(tmp_path: Path, family: str) -> None:
    peers = make(tmp_path, family, PREFIX[family] + "ForMaskedLM")
    with pytest.warns(match="classify"):
        first, _ = load_model(tmp_path, ("classify",), generator=torch.Generator().manual_seed(3))
    with pytest.warns(match="classify"):
        again, _ = load_model(tmp_path, ("classify",), generator=torch.Generator().manual_seed(3))
    assert same(dict(first.state_dict()), dict(again.state_dict()))
    assert torch.equal(first.encoder.embeddings.tokens.weight, peers.ours.encoder.embeddings.tokens.weight)
    assert first(random_ids(peers, 2, 5)).scores["classify"].shape == (2, 3)


def test_a_classifier_of_tokens_is_not_taken_for_one_of_texts(tmp_path: Path) -> None:
    make(tmp_path, "bert", "BertForTokenClassification")
    with pytest.warns(match="classify"):
        load_model(tmp_path, ("classify",))
