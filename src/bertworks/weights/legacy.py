"""Old checkpoints, turned into the tensors and the config.json of a Hugging Face folder.

Known are Google's TensorFlow 1 checkpoints of BERT and ALBERT, two of their relatives (below), and folders
with a `pytorch_model.bin`. A layout is a list of rows: name in TensorFlow, name in Hugging Face, and shape.
Every variable must be in a row, every row of the body must be there, every shape must be as the config says.

Two relatives have no class of their own in transformers, but fit another one exactly:

- *factorised BERT* (bert4keras, SimBERT-tiny): embeddings of width E with their norm, a linear map to width
  H, then BERT layers, each with its own weights. That is ALBERT with as many groups as layers.
- *early ALBERT* (albert_zh and its PyTorch ports): the word embedding alone is factorised, positions and norm
  are at width H, and the head ends in the same two matrices transposed. With their product as one embedding
  matrix, and the shared layer written once per layer, that is BERT with a tied decoder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertworks.errors import BertworksError, ConfigError, InputError, UnsafeFileError, WeightsError, nearest
from bertworks.weights.archives import is_archive, unpack
from bertworks.weights.legacy_names import Layout, Row, rows_of
from bertworks.weights.pickled import read_pickled
from bertworks.weights.tensorflow import checkpoint_prefix, read_checkpoint

if TYPE_CHECKING:
    import torch

Array = npt.NDArray[Any]

PICKLE = "pytorch_model.bin"


@dataclass(frozen=True)
class LegacyCheckpoint:
    """What a model folder holds (config.json, tensors, tokenizer files), and what the reader should know.

    Tensors tied to the word embeddings (the head's decoder) are left out, as transformers leaves them out.
    """

    config: dict[str, Any]
    tensors: dict[str, Array | torch.Tensor]
    tokenizer_files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_legacy(path: Path, *, allow_pickle: bool = False) -> LegacyCheckpoint:
    """Read an old checkpoint: a folder (or one folder deeper), a checkpoint's prefix, or a .zip or .tar.gz.

    `pytorch_model.bin` is a pickle. It is loaded weights-only, which runs no code of the file, and still only
    when `allow_pickle` says so.
    """
    if not (is_archive(path) and path.is_file()):
        return _read(path, allow_pickle)
    with TemporaryDirectory(prefix="bertworks-", ignore_cleanup_errors=True) as folder:
        try:
            unpack(path, Path(folder))
            return _read(Path(folder), allow_pickle)
        except BertworksError as error:  # the temporary name would mean nothing to the reader
            raise type(error)(error.message.replace(folder, str(path)), error.way_out) from None


def _read(path: Path, allow_pickle: bool) -> LegacyCheckpoint:
    source = _find(path)
    if source.suffix != ".bin":
        return _from_tensorflow(source)
    if not allow_pickle:
        raise UnsafeFileError(
            f"{source}: tensors in a pickle, which is a program",
            "allow it (--allow-pickle, or allow_pickle=True) if you trust its source; it is still loaded weights-only",
        )
    return _from_torch(source)


# --- finding the files --------------------------------------------------------------------------------------


def _find(path: Path) -> Path:
    """The checkpoint's prefix, or its pytorch_model.bin."""
    if not path.is_dir():
        return path if path.is_file() and path.suffix == ".bin" else checkpoint_prefix(path)
    inside = sorted(each for each in path.iterdir() if each.is_dir() and not each.name.startswith((".", "__MACOSX")))
    holders = [folder for folder in (path, *inside) if any(folder.glob("*.index")) or (folder / PICKLE).is_file()]
    if path in holders:
        holders = [path]
    if len(holders) != 1:
        names = ", ".join(folder.name for folder in holders) or "none"
        present = any(path.glob("*.safetensors"))
        raise WeightsError(
            f"{path}: expected one checkpoint (*.index or {PICKLE}) here or one folder deeper, found {names}",
            "It has safetensors: use the folder as it is." if present else "Name the checkpoint itself.",
        )
    (folder,) = holders
    return checkpoint_prefix(folder) if any(folder.glob("*.index")) else folder / PICKLE


def _config_file(folder: Path) -> Path:
    for name in ("config.json", "bert_config.json", "albert_config.json"):
        if (folder / name).is_file():
            return folder / name
    found = sorted(folder.glob("*config*.json"))
    if len(found) != 1:
        names = ", ".join(each.name for each in found) or "none"
        raise ConfigError(f"{folder}: expected one config (*config*.json) beside the checkpoint, found {names}")
    return found[0]


def _read_config(folder: Path) -> tuple[Path, dict[str, Any]]:
    path = _config_file(folder)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: not readable JSON ({error})") from None
    if not isinstance(config, dict):
        raise ConfigError(f"{path}: expected an object of options, found {type(config).__name__}")
    return path, config


# Google's ALBERT calls its files after what they were trained on; a model folder has one name for each.
TOKENIZER_FILES = {
    "vocab.txt": "vocab*.txt", "spiece.model": "*.model", "tokenizer.json": "tokenizer.json",
    "tokenizer_config.json": "tokenizer_config.json", "special_tokens_map.json": "special_tokens_map.json",
    "added_tokens.json": "added_tokens.json", "vocab.json": "vocab.json", "merges.txt": "merges.txt",
}  # fmt: skip


def _tokenizer_files(folder: Path) -> dict[str, bytes]:
    """The tokenizer's files byte for byte: a blank line in a vocabulary is a token like any other."""
    files = {}
    for name, pattern in TOKENIZER_FILES.items():
        exact = folder / name
        found = [exact] if exact.is_file() else sorted(folder.glob(pattern))
        if len(found) == 1:
            # a sentencepiece model under its own name keeps it
            renamed = found[0].name if found[0].name == "sentencepiece.bpe.model" else name
            files[renamed] = found[0].read_bytes()
    return files


def _check_vocabulary(folder: Path, files: Mapping[str, bytes], rows: int, notes: list[str]) -> None:
    """More tokens than rows would read past the embeddings; fewer is padding, and worth knowing."""
    if "vocab.txt" not in files:
        return
    text = files["vocab.txt"]
    count = text.count(b"\n") + (not text.endswith(b"\n"))
    if count > rows:
        raise InputError(
            f"{folder / 'vocab.txt'}: {count} lines, but the model has embeddings for {rows} tokens",
            "This vocabulary belongs to another model.",
        )
    if count < rows:
        notes.append(f"vocab.txt has {count} lines for {rows} embeddings; the last {rows - count} are never used")


# --- config.json --------------------------------------------------------------------------------------------

SIZES = {
    "V": "vocab_size", "H": "hidden_size", "I": "intermediate_size", "P": "max_position_embeddings",
    "T": "type_vocab_size", "E": "embedding_size",
}  # fmt: skip
NUMBERS = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "initializer_range": 0.02}
MOST_LAYERS = 128  # the rows, and a shared layer's copies, are made before a tensor could contradict it
ACTIVATIONS = ("gelu", "gelu_new", "relu", "tanh", "silu", "swish")
# what Google's and others' configs also say, and no model here reads
UNREAD = re.compile(
    r"directionality|pooler_.*|down_scale_factor|gap_size|net_structure_type|num_memory_blocks|layers_to_keep"
    r"|num_hidden_groups|inner_group_num|embedding_size|ln_type|share_type|output_.*|torchscript|architectures"
    r"|model_type|finetuning_task|num_labels|pruned_heads|transformers_version|.*_token_id"
)


def _whole(path: Path, config: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = config.get(key, default)
    most = MOST_LAYERS if key in ("num_hidden_layers", "num_hidden_groups", "inner_group_num") else 1 << 31
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        said = "is missing" if value is None else f"is {value!r}"
        raise ConfigError(f"{path}: {key} {said}; it must be a whole number from 1 to {most}")
    return value


def _new_config(path: Path, old: Mapping[str, Any], layout: Layout, notes: list[str]) -> dict[str, Any]:
    """The config with Hugging Face's keys; `architectures` is added when the heads are known."""
    albert = layout in ("albert", "factorised")
    new: dict[str, Any] = {"model_type": "albert" if albert else "bert"}
    for key in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
        new[key] = _whole(path, old, key)
    new["max_position_embeddings"] = _whole(path, old, "max_position_embeddings", 512)
    new["type_vocab_size"] = _whole(path, old, "type_vocab_size", 2)
    if new["hidden_size"] % new["num_attention_heads"]:
        raise ConfigError(f"{path}: hidden_size {new['hidden_size']} does not divide by num_attention_heads")
    for key, default in NUMBERS.items():
        new[key] = old.get(key, default)
        if not isinstance(new[key], (int, float)) or not 0 <= new[key] <= 1:
            raise ConfigError(f"{path}: {key} is {new[key]!r}; it must be a number from 0 to 1")
    new["layer_norm_eps"] = old.get("layer_norm_eps", 1e-12)
    new["hidden_act"] = _activation(path, old, layout, notes)
    if albert:
        new["embedding_size"] = _whole(path, old, "embedding_size", 128)
        groups = _whole(path, old, "num_hidden_groups", 1)
        new["num_hidden_groups"] = groups if layout == "albert" else new["num_hidden_layers"]
        new["inner_group_num"] = _whole(path, old, "inner_group_num", 1) if layout == "albert" else 1
    if old.get("ln_type", "postln") != "postln":
        raise ConfigError(f"{path}: ln_type {old['ln_type']!r} puts the norms first, which BERT and ALBERT do not")
    unread = sorted(key for key in old if key not in new and not UNREAD.fullmatch(key))
    if unread:
        notes.append(f"{path.name}: not carried over: {', '.join(unread)}")
    return new


def _activation(path: Path, old: Mapping[str, Any], layout: Layout, notes: list[str]) -> str:
    """ALBERT's code computes "gelu" by its tanh approximation, which transformers calls gelu_new."""
    name = old.get("hidden_act", "gelu")
    if name not in ACTIVATIONS:
        raise ConfigError(f"{path}: hidden_act {name!r} is not known", nearest(str(name), ACTIVATIONS))
    if name == "gelu" and layout in ("albert", "early"):
        notes.append("hidden_act gelu → gelu_new: this model was trained with the tanh approximation")
        return "gelu_new"
    return str(name)


# --- TensorFlow's checkpoints -------------------------------------------------------------------------------

SLOT = re.compile(
    r"(.*/)?(global_step|beta[12]_power|loss_scale|current_loss_scale|good_steps|bad_steps|(adam|lamb)_[mv](_\d+)?"
    r"|(Adam|AdamW|LAMB|Lamb|AdamWeightDecayOptimizer|LAMBOptimizer|Momentum)(_\d+)?)"
)


def _from_tensorflow(prefix: Path) -> LegacyCheckpoint:
    notes: list[str] = []
    found = {name.removeprefix("module/"): array for name, array in read_checkpoint(prefix).items()}
    slots = [name for name in found if SLOT.fullmatch(name)]
    for name in slots:
        del found[name]
    if slots:
        notes.append(f"left out {len(slots)} variables of the optimiser ({slots[0]}, …)")
    layout = _layout(prefix, found)
    path, old = _read_config(prefix.parent)
    config = _new_config(path, old, layout, notes)
    shared = any("/layer_shared/" in name for name in found)
    parts = rows_of(layout, config, shared)
    sizes = _sizes(config, found.get("bert/embeddings/word_embeddings"))
    tensors = {}
    rows = {row.tensorflow: row for part in parts.values() for row in part}
    for name, array in found.items():
        if name not in rows:
            hint = nearest(name, rows) or "This is not one of the checkpoints this reads."
            raise WeightsError(f"{prefix}: variable {name} is not part of a {layout} model", hint)
        tensors[rows[name].name] = _convert(f"{prefix}: variable {name}", array, rows[name], sizes)
    doubles = [name for name, array in found.items() if array.dtype == np.float64]
    if doubles:
        notes.append(f"stored as float64, rounded to float32: {', '.join(doubles)}")
    heads = _heads(str(prefix), parts, tensors, in_tensorflow=True)
    return _finish(prefix.parent, layout, config, heads, tensors, notes)


def _layout(prefix: Path, names: Iterable[str]) -> Layout:
    """Which of the known layouts it is, told by the one name only it has."""
    text = "\n".join(names)
    if "bert/encoder/transformer/group_" in text:
        return "albert"
    if "bert/embeddings/word_embeddings_2" in text:
        return "early"
    if "bert/encoder/embedding_hidden_mapping_in" in text:
        return "factorised"
    if "bert/encoder/layer_" in text:
        return "bert"
    way_out = "It must hold Google's BERT or ALBERT, with variables like bert/embeddings/word_embeddings."
    if ".ATTRIBUTES" in text:
        way_out = "It is a TensorFlow 2 object checkpoint; save it with TensorFlow 1 names, or from transformers."
    raise WeightsError(f"{prefix}: not a layout this knows (it begins with {text[:80].splitlines()[:1]})", way_out)


def _sizes(config: Mapping[str, Any], words: Any) -> dict[str, int]:
    """The letters of a shape as numbers. Early ALBERT's configs do not all say E, so there it is read off."""
    sizes = {letter: int(config[key]) for letter, key in SIZES.items() if key in config}
    if "E" not in sizes and words is not None and words.ndim == 2:
        sizes["E"] = int(words.shape[1])
    return {**sizes, "2": 2}


def _convert(where: str, array: Array, row: Row, sizes: Mapping[str, int]) -> Array:
    """A float32 copy of its own, in Hugging Face's order; `where` says what is being read, for errors."""
    array = array.T if row.transposed else array
    _check_shape(where, array.shape, row, sizes)
    if array.dtype.kind != "f":
        raise WeightsError(f"{where} holds {array.dtype}, not weights")
    with np.errstate(over="ignore"):
        copy = np.array(array, np.float32, order="C")
    if not np.isfinite(copy).all():
        raise WeightsError(f"{where} holds values that are not finite", "The training of this model went wrong.")
    return copy


def _check_shape(where: str, shape: tuple[int, ...], row: Row, sizes: Mapping[str, int]) -> None:
    expected = tuple(sizes[letter] for letter in row.shape)
    if tuple(shape) != expected:
        said = ", ".join(f"{SIZES[letter]} {sizes[letter]}" for letter in dict.fromkeys(row.shape) if letter in SIZES)
        turned = " (turned)" if row.transposed else ""
        raise WeightsError(
            f"{where} has shape {list(shape)}{turned}; by the config ({said}) it should be {list(expected)}",
            "The config belongs to another checkpoint.",
        )


# --- pytorch_model.bin --------------------------------------------------------------------------------------

# Overwritten by the (transposed) embeddings when the ports load a file, so what the file holds is never used.
PLACEHOLDERS = ("cls.predictions.project_layer.weight", "cls.predictions.decoder.weight")


def _from_torch(source: Path) -> LegacyCheckpoint:
    tensors = read_pickled(source)
    if any("embeddings.word_embeddings_2." in name for name in tensors):
        return _from_early_port(source, tensors)
    return _as_it_is(source, tensors)


def _from_early_port(source: Path, found: dict[str, torch.Tensor]) -> LegacyCheckpoint:
    """Early ALBERT in PyTorch: torch's order already, TensorFlow's structure."""
    path, old = _read_config(source.parent)
    notes: list[str] = []
    config = _new_config(path, old, "early", notes)
    shared = any(".layer_shared." in name for name in found)
    parts = rows_of("early", config, shared)
    rows = {row.name: row for part in parts.values() for row in part}
    if dropped := [name for name in PLACEHOLDERS if found.pop(name, None) is not None]:
        notes.append(f"left out {', '.join(dropped)}: placeholders, tied to the embeddings when the model runs")
    sizes = _sizes(config, found.get("bert.embeddings.word_embeddings.weight"))
    tensors = {}
    for old_name, tensor in found.items():
        name = _new_spelling(old_name).replace(".layer_shared.", ".layer.0.")
        if name not in rows:
            hint = nearest(name, rows) or "This is not one of the checkpoints this reads."
            raise WeightsError(f"{source}: tensor {old_name} is not part of an early ALBERT", hint)
        as_stored = Row("", name, rows[name].shape)
        tensors[name] = _convert(f"{source}: tensor {old_name}", tensor.float().numpy(), as_stored, sizes)
    heads = _heads(str(source), parts, tensors, in_tensorflow=False)
    return _finish(source.parent, "early", config, heads, tensors, notes)


def _new_spelling(name: str) -> str:
    """LayerNorm's parameters were once called gamma and beta."""
    return re.sub(r"LayerNorm\.(gamma|beta)$", lambda m: f"LayerNorm.{NEW_SPELLING[m[1]]}", name)


NEW_SPELLING = {"gamma": "weight", "beta": "bias"}


def _as_it_is(source: Path, found: dict[str, torch.Tensor]) -> LegacyCheckpoint:
    """A folder that transformers wrote before safetensors: the names are kept, the spelling is new."""
    path, config = _read_config(source.parent)
    tensors = {_new_spelling(name): tensor for name, tensor in found.items()}
    if len(tensors) != len(found):
        raise WeightsError(f"{source}: holds a LayerNorm in the old and the new spelling at once")
    notes = []
    renamed = sum(name not in found for name in tensors)
    if renamed:
        notes.append(f"renamed {renamed} tensors: LayerNorm.gamma and .beta are now .weight and .bias")
    kind = config.get("model_type") or _model_type(tensors)
    if kind is None:
        raise ConfigError(f"{path}: no model_type, and the tensors do not tell", 'Add "model_type", such as "bert".')
    config["model_type"] = kind
    if "architectures" not in config:
        config["architectures"] = [_class_of(kind, tensors)]
    files = _tokenizer_files(source.parent)
    words = [tensor for name, tensor in tensors.items() if name.endswith("embeddings.word_embeddings.weight")]
    for tensor in words:
        width = config.get("embedding_size") if kind in ("albert", "electra") else config.get("hidden_size")
        expected = (config.get("vocab_size"), width)
        if tuple(tensor.shape) != expected:
            raise WeightsError(
                f"{source}: word embeddings of shape {list(tensor.shape)}; {path.name} says {list(expected)}",
                "The config belongs to another checkpoint.",
            )
        _check_vocabulary(source.parent, files, tensor.shape[0], notes)
    return LegacyCheckpoint(config, {**tensors}, files, notes)


def _model_type(names: Iterable[str]) -> str | None:
    text = "\n".join(names)
    marks = {
        "albert_layer_groups": "albert",
        "roberta_prelayernorm.": "roberta-prelayernorm",
        "roberta.": "roberta",
        "lm_head.": "roberta",
        "electra.": "electra",
    }
    for mark, kind in marks.items():
        if mark in text:
            return kind
    return "bert" if "encoder.layer.0.attention.self.query" in text else None


def _class_of(kind: str, names: Iterable[str]) -> str:
    """The class whose heads the tensors have, for configs from before there was `architectures`."""
    text = "\n".join(names)
    family = {
        "bert": "Bert",
        "albert": "Albert",
        "roberta": "Roberta",
        "roberta-prelayernorm": "RobertaPreLayerNorm",
        "electra": "Electra",
    }.get(kind)
    if family is None:
        raise ConfigError(f"model_type {kind!r} without architectures: the class is not known", "Add architectures.")
    if "seq_relationship." in text or "sop_classifier." in text:
        return f"{family}ForPreTraining"
    if "predictions." in text or "lm_head." in text:
        return f"{family}ForMaskedLM"
    return f"{family}Model"


# --- the last steps, common to both -------------------------------------------------------------------------


def _heads(
    where: str, parts: Mapping[str, list[Row]], tensors: Mapping[str, Array], *, in_tensorflow: bool
) -> set[str]:
    """Which heads are there. A part of a head, or a body with a hole, is an error that names it."""
    heads = set()
    for part, rows in parts.items():
        missing = [row.tensorflow if in_tensorflow else row.name for row in rows if row.name not in tensors]
        if missing and (part == "body" or len(missing) < len(rows)):
            raise WeightsError(f"{where}: {missing[0]} is missing", "The checkpoint is incomplete, or of another size.")
        if not missing:
            heads.add(part)
    return heads


def _finish(
    folder: Path,
    layout: Layout,
    config: dict[str, Any],
    heads: set[str],
    tensors: dict[str, Array],
    notes: list[str],
) -> LegacyCheckpoint:
    if layout == "early":
        tensors = _unfold(tensors, config["num_hidden_layers"])
        notes.append(
            "early ALBERT written as BERT, with the same outputs: transformers' ALBERT has positions, norm "
            "before the projection to the hidden width, this model after it"
        )
    if layout == "factorised":
        notes.append("BERT with factorised embeddings written as ALBERT with one group per layer: the same function")
    family = "Albert" if config["model_type"] == "albert" else "Bert"
    config["architectures"] = [_architecture(family, heads, notes)]
    if config["architectures"] == ["BertModel"]:  # a bare model's tensors carry no prefix
        tensors = {name.removeprefix("bert."): array for name, array in tensors.items()}
    elif config["architectures"] == ["AlbertModel"]:
        tensors = {name.removeprefix("albert."): array for name, array in tensors.items()}
    files = _tokenizer_files(folder)
    _check_vocabulary(folder, files, config["vocab_size"], notes)
    if "vocab.txt" in files:
        _describe_wordpiece(config, files, notes)
    return LegacyCheckpoint(config, {**tensors}, files, notes)


def _architecture(family: str, heads: set[str], notes: list[str]) -> str:
    if "pair" in heads and not {"masked", "pooler"} <= heads:
        notes.append("the sentence-pair head is there without the heads it needs beside it; its class is a guess")
    if "pooler" not in heads:
        notes.append("no pooler in this checkpoint: a model that uses one starts it untrained")
    if "pair" in heads:
        return f"{family}ForPreTraining"
    if "masked" in heads:
        if "pooler" in heads:
            notes.append(f"the pooler is kept: {family}Model reads it, {family}ForMaskedLM ignores it")
        return f"{family}ForMaskedLM"
    return f"{family}Model"


def _unfold(tensors: dict[str, Array], layers: int) -> dict[str, Array]:
    """Early ALBERT as BERT: words [V, E] times projection [H, E] transposed, and the layer for every layer.

    The product is taken in float64, so that it is rounded once.
    """
    words = tensors.pop("bert.embeddings.word_embeddings.weight").astype(np.float64)
    projection = tensors.pop("bert.embeddings.word_embeddings_2.weight").astype(np.float64)
    tensors = {"bert.embeddings.word_embeddings.weight": (words @ projection.T).astype(np.float32), **tensors}
    first = "bert.encoder.layer.0."
    if not any(name.startswith("bert.encoder.layer.1.") for name in tensors):
        one = {name.removeprefix(first): array for name, array in tensors.items() if name.startswith(first)}
        for layer in range(1, layers):
            tensors |= {f"bert.encoder.layer.{layer}.{name}": array.copy() for name, array in one.items()}
    return tensors


def _describe_wordpiece(config: dict[str, Any], files: dict[str, bytes], notes: list[str]) -> None:
    """Say what vocab.txt does not: that it is WordPiece, lower case or not, and for ALBERT the special ids.

    transformers expects SentencePiece of an ALBERT, and lower case of a BERT, unless told otherwise.
    """
    tokens = [line.rstrip(b"\r") for line in files["vocab.txt"].split(b"\n")]
    if config["model_type"] == "albert":
        names = {"pad_token_id": b"[PAD]", "bos_token_id": b"[CLS]", "eos_token_id": b"[SEP]"}
        config |= {key: tokens.index(token) if token in tokens else None for key, token in names.items()}
    if "tokenizer_config.json" not in files:
        capitals = sum(bool(re.search(rb"[A-Z]", token)) for token in tokens if not token.startswith(b"["))
        lower = capitals * 100 < len(tokens)  # Google's Chinese vocabulary is lower case but for two tokens
        told = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower}
        files["tokenizer_config.json"] = (json.dumps(told) + "\n").encode()
        notes.append(f"the vocabulary {'is lower case' if lower else 'has capitals'}: do_lower_case is {lower}")
