"""A model's configuration: ours is a frozen dataclass, Hugging Face's is config.json, one table translates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

from bertworks.errors import ConfigError, nearest, tell


@dataclass(frozen=True)
class EncoderConfig:
    """What the families share. The defaults are BERT-base's, as published."""

    vocab_size: int = 30522
    hidden_size: int = 768
    layers: int = 12
    heads: int = 12
    intermediate_size: int = 3072
    activation: str = "gelu"
    dropout: float = 0.1
    attention_dropout: float = 0.1
    classifier_dropout: float | None = None  # None: the same as dropout
    positions: int = 512
    segments: int = 2
    norm_eps: float = 1e-12
    init: str = "truncated-normal"
    init_std: float = 0.02
    pad_id: int | None = 0
    tied: bool = True
    labels: tuple[str, ...] = ("LABEL_0", "LABEL_1")

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "layers", "heads", "intermediate_size", "positions"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} must be a whole number from 1 up, not {value!r}")
        for name in ("dropout", "attention_dropout"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value < 1:
                raise ConfigError(f"{name} must be from 0 to below 1, not {value!r}")
        if self.hidden_size % self.heads:
            raise ConfigError(
                f"{self.heads} attention heads do not divide the width {self.hidden_size}",
                "choose hidden_size as a multiple of heads",
            )

    @property
    def max_length(self) -> int:
        """The longest text in tokens, [CLS] and [SEP] included."""
        return self.positions

    @property
    def head_dropout(self) -> float:
        return self.dropout if self.classifier_dropout is None else self.classifier_dropout

    def but(self, **changes: Any) -> Self:
        """A copy with some values changed; an unknown name is an error that names the nearest.

        >>> EncoderConfig().but(layers=6).layers
        6
        """
        known = {field.name for field in fields(self)}
        for name in changes:
            if name not in known:
                raise ConfigError(f"unknown model option {name!r}", nearest(name, known) or f"known: {sorted(known)}")
        return replace(self, **changes)


C = TypeVar("C", bound=EncoderConfig)


@dataclass(frozen=True)
class Key:
    """One row of the configuration table: our field, Hugging Face's key, what a file without the key means.

    A key may be a path of keys through tables, parted by dots. Where values are not the same, `read` makes ours from
    theirs and the whole file, and `write` theirs from our whole configuration.
    """

    ours: str
    theirs: str
    absent: Any
    read: Callable[[Any, Mapping[str, Any]], Any] | None = None
    write: Callable[[Any], Any] | None = None

    def of(self, file: Mapping[str, Any]) -> Any:
        """Our value, from a whole config.json."""
        value = _at(file, self.theirs, self.absent)
        if self.ours in ACTIVATIONS_OF:
            return _our_activation(value, self.theirs)
        return value if self.read is None else self.read(value, file)

    def put(self, config: EncoderConfig, file: dict[str, Any]) -> None:
        """Their value, into a config.json in the making."""
        *tables, key = self.theirs.split(".")
        for table in tables:
            file = file.setdefault(table, {})
        value = getattr(config, self.ours) if self.write is None else self.write(config)
        file[key] = ACTIVATION_NAMES[value][0] if self.ours in ACTIVATIONS_OF else value


ACTIVATIONS_OF = ("activation", "head_activation")  # the fields whose values have other names in config.json


def _at(file: Mapping[str, Any], path: str, absent: Any) -> Any:
    """What a file says under a.b.c."""
    value: Any = file
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return absent
        value = value[key]
    return value


ENCODER_KEYS: tuple[Key, ...] = (
    Key("vocab_size", "vocab_size", 30522),
    Key("hidden_size", "hidden_size", 768),
    Key("layers", "num_hidden_layers", 12),
    Key("heads", "num_attention_heads", 12),
    Key("intermediate_size", "intermediate_size", 3072),
    Key("activation", "hidden_act", "gelu"),
    Key("dropout", "hidden_dropout_prob", 0.1),
    Key("attention_dropout", "attention_probs_dropout_prob", 0.1),
    Key("classifier_dropout", "classifier_dropout", None),
    Key("positions", "max_position_embeddings", 512),
    Key("segments", "type_vocab_size", 2),
    Key("norm_eps", "layer_norm_eps", 1e-12),
    Key("init_std", "initializer_range", 0.02),
    Key("pad_id", "pad_token_id", 0),
    Key("tied", "tie_word_embeddings", True),
)

# The same function has had several names in config.json; the first of each is what we write.
ACTIVATION_NAMES: dict[str, tuple[str, ...]] = {
    "gelu": ("gelu", "gelu_python"),
    "gelu-tanh": ("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate"),
    "relu": ("relu",),
    "silu": ("silu", "swish"),
}


def rows_with(rows: tuple[Key, ...], *changed: Key) -> tuple[Key, ...]:
    """The table with some rows replaced (by `ours`) and new ones added."""
    new = {row.ours: row for row in changed}
    return tuple(new.pop(row.ours, row) for row in rows) + tuple(new.values())


def from_hf(kind: type[C], rows: tuple[Key, ...], file: Mapping[str, Any]) -> C:
    """Our configuration from the contents of a config.json."""
    values = {row.ours: row.of(file) for row in rows}
    values["labels"] = _labels(file)
    _refuse_other_models(file)
    return kind(**values)


def to_hf(config: EncoderConfig, rows: tuple[Key, ...]) -> dict[str, Any]:
    """What config.json says of our configuration."""
    file: dict[str, Any] = {}
    for row in rows:
        row.put(config, file)
    file["id2label"] = {str(i): label for i, label in enumerate(config.labels)}
    file["label2id"] = {label: i for i, label in enumerate(config.labels)}
    return file


def _our_activation(name: Any, key: str) -> str:
    for ours, theirs in ACTIVATION_NAMES.items():
        if name in theirs:
            return ours
    known = [name for theirs in ACTIVATION_NAMES.values() for name in theirs]
    raise ConfigError(
        f"config.json: unknown {key} {name!r}",
        nearest(str(name), known) or f"known: {', '.join(known)}",
    )


def _labels(file: Mapping[str, Any]) -> tuple[str, ...]:
    names = file.get("id2label")
    if not names:
        return tuple(f"LABEL_{i}" for i in range(int(file.get("num_labels") or 2)))
    try:
        by_id = {int(key): str(label) for key, label in names.items()}
        return tuple(by_id[i] for i in range(len(by_id)))
    except (KeyError, ValueError, AttributeError):
        raise ConfigError(
            "config.json: id2label is not a map from 0, 1, 2, … to names", "number the labels from 0"
        ) from None


def _refuse_other_models(file: Mapping[str, Any]) -> None:
    """Options that change what the model computes, and that this house does not have."""
    if (kind := file.get("position_embedding_type", "absolute")) != "absolute":
        raise ConfigError(
            f"config.json: position_embedding_type {kind!r} is not BERT as published",
            "only 'absolute' positions load",
        )
    for key in ("is_decoder", "add_cross_attention"):
        if file.get(key):
            raise ConfigError(f"config.json: {key} makes this a decoder; an encoder is wanted", f"set {key} to false")
    if file.get("auto_map"):
        tell("config.json: auto_map names code to run; ignored, no code of a model folder is ever run")
