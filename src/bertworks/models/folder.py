"""A model folder in and out: config.json + safetensors, in Hugging Face's layout."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertworks.errors import ConfigError, WeightsError, nearest, tell
from bertworks.folders import inside, read_json
from bertworks.layers.attention import Attention
from bertworks.layers.init import Unfilled, initialise
from bertworks.weights.files import check_finite, find_tensors, open_tensors, write_tensors
from bertworks.weights.names import NameTable

from . import architecture
from .config import EncoderConfig, from_hf, to_hf
from .encoder import Model
from .parts import Architecture, Shape

# What differs between two saves of one model and says nothing about it.
FORGOTTEN_KEYS = (
    "_name_or_path",
    "auto_map",
    "transformers_version",
    "torch_dtype",
    "dtype",
    "architectures",
)


@dataclass(frozen=True)
class Description:
    """What config.json says: the family, its configuration, the class, and whatever else it holds."""

    architecture: Architecture
    config: EncoderConfig
    shape: Shape | None
    file: Mapping[str, Any] = field(default_factory=dict)

    @property
    def heads(self) -> tuple[str, ...]:
        return () if self.shape is None else self.shape.heads


def describe(folder: Path) -> Description:
    """Read a folder's config.json."""
    path = inside(folder, "config.json")
    if path is None:
        raise ConfigError(f"{folder} has no config.json", "name a model folder, or `bertworks import` a checkpoint")
    file = read_json(path)
    kind = file.get("model_type")
    if not isinstance(kind, str):
        raise ConfigError(f"{path} does not say its model_type", 'add one, such as "model_type": "bert"')
    try:
        family = architecture(kind)
        config = from_hf(family.config, family.keys, file)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error.message.removeprefix('config.json: ')}", error.way_out) from None
    classes = file.get("architectures") or []
    name = classes[0] if isinstance(classes, list) and classes else None
    if name is not None and name not in family.shapes:
        tell(f"{path}: this house has no class {name!r}; heads are taken by the names of the tensors")
    return Description(family, config, family.shapes.get(name) if name else None, file)


def load_model(
    folder: Path,
    heads: tuple[str, ...] | None = None,
    dtype: torch.dtype | None = None,
    allow_pickle: bool = False,
    way: str = "fused",
    generator: torch.Generator | None = None,
) -> tuple[Model, Description]:
    """The model of a folder, in evaluation mode on the CPU, with the folder's own heads or the named ones.

    A head (or pooler) that the weights do not hold is initialised and said so; any other absence is an error.
    """
    description = describe(folder)
    try:
        tensors = open_tensors(folder, allow_pickle)
        model, config = _build(description, tensors, heads, dtype, way, generator)
    except WeightsError as error:
        raise WeightsError(f"{folder}: {error.message.removeprefix(f'{folder}/')}", error.way_out) from None
    return model, replace(description, config=config)


def _build(
    description: Description,
    tensors: Mapping[str, Tensor],
    heads: tuple[str, ...] | None,
    dtype: torch.dtype | None,
    way: str,
    generator: torch.Generator | None,
) -> tuple[Model, EncoderConfig]:
    family = description.architecture
    table = family.names(description.config, description.heads)
    spelled = table.canonical(tensors)
    config = _tied_as_stored(description.config, table, spelled, tensors)
    if config is not description.config:
        table = family.names(config, description.heads)
    stored = table.stored(spelled)
    if heads is None:
        heads = description.heads if description.shape else _heads_among(stored, family)
    pooler = True if "encoder.pooler.dense.weight" in stored else None if heads else False
    with Unfilled():
        model = family.build(config, heads, pooler, way)
    wanted = {name: tensor.shape for name, tensor in model.state_dict().items()}
    found = table.read(tensors, wanted)
    for name, tensor in found.items():
        check_finite(table.theirs(name), tensor, quick=True)
    missing = [name for name in wanted if name not in found]
    for part in _missing_parts(missing, wanted, table, spelled):
        found |= _initialised(model, part, config, generator)
    model.load_state_dict(found, assign=True)
    if dtype is not None:
        convert(model, dtype)
    return model.eval(), config


def convert(model: Model, dtype: torch.dtype) -> None:
    """Weights to another number format; attention's projections are joined on the way, as a copy is made anyway."""
    for part in model.modules():
        if isinstance(part, Attention) and part.query.weight.dtype != dtype:
            part.join(dtype)
    for weight in model.parameters():
        if weight.dtype != dtype:
            weight.data = weight.data.to(dtype)


def check_weights(model: Model, description: Description) -> None:
    """Every number of a model looked at; the first tensor that holds a NaN or infinity is named."""
    table = description.architecture.names(description.config, tuple(model.heads))
    for name, weight in model.state_dict().items():
        check_finite(table.theirs(name), weight)


def _tied_as_stored(
    config: EncoderConfig, table: NameTable, spelled: Mapping[str, str], tensors: Mapping[str, Tensor]
) -> EncoderConfig:
    """A decoder stored beside an embedding table that it differs from is not tied, whatever config.json says."""
    decoder = next((spelled[name] for name in spelled if name.endswith("decoder.weight")), None)
    embedding = spelled.get(table.theirs("encoder.embeddings.tokens.weight"))
    if not config.tied or decoder is None or embedding is None:
        return config
    if torch.equal(tensors[decoder], tensors[embedding]):
        return config
    tell(f"{decoder} differs from {embedding}: kept apart, though config.json calls them tied")
    return config.but(tied=False)


def _heads_among(stored: set[str], family: Architecture) -> tuple[str, ...]:
    """The heads that the tensors themselves show, for a config.json that names no class."""
    return tuple(head for head in family.heads if any(name.startswith(f"heads.{head}.") for name in stored))


def _missing_parts(
    missing: list[str], wanted: Mapping[str, torch.Size], table: NameTable, spelled: Mapping[str, str]
) -> list[str]:
    """The heads (or the pooler) that are absent whole, to be initialised. Anything else absent is an error."""
    parts: dict[str, None] = {}
    for name in missing:
        part = ".".join(name.split(".")[:2])
        whole = part != "encoder.embeddings" and all(
            other in missing for other in wanted if other.startswith(f"{part}.")
        )
        if not whole or part == "encoder.stack":
            theirs = table.theirs(name)
            raise WeightsError(f"tensor {theirs!r} is missing", nearest(theirs, spelled.values()))
        parts[part] = None
    return list(parts)


def _initialised(
    model: Model,
    part: str,
    config: EncoderConfig,
    generator: torch.Generator | None,
) -> dict[str, Tensor]:
    """First values for a part that the weights do not hold."""
    tell(f"the weights hold no {part.rpartition('.')[2]}: it starts from random values, train it before use")
    module = model.get_submodule(part)
    initialise(module, config.init, config.init_std, generator)
    return {f"{part}.{name}": tensor for name, tensor in module.state_dict().items()}


def write_model(folder: Path, model: Model, description: Description) -> None:
    """config.json and the tensors into `folder`, the temporary one of `folders.new_folder`."""
    family, config = description.architecture, description.config
    heads = tuple(model.heads)
    name = family.shape_name(heads, model.encoder.pooler is not None)
    table = family.names(config, heads)
    weights = table.write(model.state_dict(), prefix=bool(heads))
    kept = {key: value for key, value in description.file.items() if key not in FORGOTTEN_KEYS}
    stored = next(tensor.dtype for tensor in weights.values() if tensor.is_floating_point())
    file = {
        **kept,
        **to_hf(config, family.keys),
        "architectures": [name],
        "model_type": family.name,
        "dtype": str(stored).removeprefix("torch."),
    }
    (folder / "config.json").write_text(
        json.dumps(file, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf8"
    )
    write_tensors(folder, weights)


def stored_parts(folder: Path) -> tuple[Description, tuple[str, ...], bool, dict[str, Any] | None]:
    """What a folder holds, from config.json and the weights' header alone: heads, a pooler?, tensors and types.

    Without weights, what config.json's class would hold.
    """
    description = describe(folder)
    shape = description.shape or Shape()
    tensors = find_tensors(folder)
    if tensors is None:
        return description, shape.heads, shape.pooler, None
    try:
        table = description.architecture.names(description.config, description.heads)
        spelled = table.canonical(tensors)
    except WeightsError as error:
        raise WeightsError(f"{folder}: {error.message}", error.way_out) from None
    ours = table.stored(spelled)
    heads = shape.heads if description.shape else _heads_among(ours, description.architecture)
    stored = {
        "tensors": len(tensors),
        "parameters": sum(math.prod(tensors.shape(name)) for name in tensors),
        "dtypes": sorted({tensors.dtype(name) for name in tensors}),
    }
    return description, heads, "encoder.pooler.dense.weight" in ours, stored
