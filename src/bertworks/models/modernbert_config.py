"""ModernBERT's configuration, and how files old and new spell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bertworks.errors import ConfigError

from .config import ENCODER_KEYS, EncoderConfig, Key, rows_with

GLOBAL, LOCAL = "full_attention", "sliding_attention"  # as layer_types says it
POOLINGS = ("cls", "mean")


@dataclass(frozen=True)
class ModernBertConfig(EncoderConfig):
    """The defaults are ModernBERT-base's.

    positions            the longest text; no weights depend on it
    dropout              after the embeddings
    attention_dropout    on the attention's probabilities and on its output
    feedforward_dropout  inside the feed-forward, after the gate
    window               what a local layer sees: so many tokens // 2 to either side
    global_every         layers 0, n, 2n, … see the whole text
    layer_types          each layer's, where that is no such pattern
    pooling              what classification reads: cls (the first token) or mean
    """

    vocab_size: int = 50368
    layers: int = 22
    intermediate_size: int = 1152
    dropout: float = 0.0
    attention_dropout: float = 0.0
    feedforward_dropout: float = 0.0
    classifier_dropout: float | None = 0.0
    positions: int = 8192
    segments: int = 0
    norm_eps: float = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    feedforward_bias: bool = False
    pad_id: int | None = 50283
    rope_theta: float = 160_000.0
    local_rope_theta: float = 10_000.0
    window: int = 128
    global_every: int = 3
    layer_types: tuple[str, ...] | None = None
    pooling: str = "cls"
    head_activation: str = "gelu"
    head_bias: bool = False
    decoder_bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.global_every < 1 or self.window < 1:
            raise ConfigError(
                f"global_every {self.global_every} and window {self.window} do not make a ModernBERT",
                "both are 1 or more (published: 3 and 128)",
            )
        if self.rope_theta <= 0 or self.local_rope_theta <= 0:
            raise ConfigError("rope_theta and local_rope_theta must be above 0", "published: 160000 and 10000")
        if self.segments:
            raise ConfigError("ModernBERT has no segments", "set segments to 0; [SEP] alone parts two texts")
        if not self.init_std > 0 or not 0 <= self.feedforward_dropout < 1:
            raise ConfigError(
                f"init_std {self.init_std!r} or feedforward_dropout {self.feedforward_dropout!r} is out of range",
                "init_std is above 0, feedforward_dropout from 0 to below 1",
            )
        if self.pooling not in POOLINGS:
            raise ConfigError(f"unknown pooling {self.pooling!r}", f"known: {', '.join(POOLINGS)}")
        kinds = self.layer_types
        if kinds is not None and (len(kinds) != self.layers or not set(kinds) <= {GLOBAL, LOCAL}):
            raise ConfigError(
                f"layer_types does not say {GLOBAL} or {LOCAL} for each of {self.layers} layers",
                "leave it out for a global layer at every global_every-th",
            )

    @property
    def attends(self) -> tuple[str, ...]:
        """Each layer's kind."""
        return self.layer_types or pattern(self.layers, self.global_every)


def pattern(layers: int, global_every: int) -> tuple[str, ...]:
    return tuple(LOCAL if i % global_every else GLOBAL for i in range(layers))


def turning(kind: str, older: str, absent: float) -> Callable[[Any, Mapping[str, Any]], Any]:
    """Reads the theta of one kind of layers from its table in rope_parameters; older files have a key of its own."""

    def read(table: Any, file: Mapping[str, Any]) -> Any:
        table = table or {}
        way = (file.get("rope_scaling") or table).get("rope_type", "default")
        if way != "default" or file.get("rope_scaling"):
            raise ConfigError(
                f"config.json: {kind} turns by rope_type {way!r}, which is not ModernBERT as published",
                "only 'default' loads, without rope_scaling",
            )
        return table.get("rope_theta", file.get(older, absent))

    return read


def periods(kinds: Any, given: Any) -> list[int]:
    """Which global_every make these layer types; the given one first."""
    numbers = [given] if isinstance(given, int) and given > 0 else []
    return [n for n in (*numbers, *range(1, len(kinds) + 1)) if tuple(kinds) == pattern(len(kinds), n)]


def read_every(given: Any, file: Mapping[str, Any]) -> Any:
    found = periods(file.get("layer_types") or (), given)
    return found[0] if found else given


def read_types(kinds: Any, _: Mapping[str, Any]) -> tuple[str, ...] | None:
    """None where they are a pattern, which `global_every` says."""
    return None if not kinds or periods(kinds, None) else tuple(kinds)


MODERNBERT_KEYS = rows_with(
    tuple(row for row in ENCODER_KEYS if row.ours != "segments"),
    Key("vocab_size", "vocab_size", 50368),
    Key("layers", "num_hidden_layers", 22),
    Key("intermediate_size", "intermediate_size", 1152),
    Key("activation", "hidden_activation", "gelu"),
    Key("dropout", "embedding_dropout", 0.0),
    Key("attention_dropout", "attention_dropout", 0.0),
    Key("feedforward_dropout", "mlp_dropout", 0.0),
    Key("classifier_dropout", "classifier_dropout", 0.0),
    Key("positions", "max_position_embeddings", 8192),
    Key("norm_eps", "norm_eps", 1e-5),
    Key("norm_bias", "norm_bias", False),
    Key("attention_bias", "attention_bias", False),
    Key("feedforward_bias", "mlp_bias", False),
    Key("pad_id", "pad_token_id", 50283),
    Key("window", "local_attention", 128),
    Key("global_every", "global_attn_every_n_layers", 3, read_every),
    Key("layer_types", "layer_types", None, read_types, lambda config: list(config.attends)),
    Key(
        "rope_theta",
        f"rope_parameters.{GLOBAL}",
        None,
        turning(GLOBAL, "global_rope_theta", 160_000.0),
        lambda config: {"rope_theta": config.rope_theta, "rope_type": "default"},
    ),
    Key(
        "local_rope_theta",
        f"rope_parameters.{LOCAL}",
        None,
        turning(LOCAL, "local_rope_theta", 10_000.0),
        lambda config: {"rope_theta": config.local_rope_theta, "rope_type": "default"},
    ),
    Key("pooling", "classifier_pooling", "cls"),
    Key("head_activation", "classifier_activation", "gelu"),
    Key("head_bias", "classifier_bias", False),
    Key("decoder_bias", "decoder_bias", True),
)
