"""RoBERTa (Liu et al., 2019): BERT with one segment, positions counted past the padding id, other heads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from bertworks.errors import ConfigError
from bertworks.heads.classify import DenseClassifier
from bertworks.heads.masked_lm import MaskedLM
from bertworks.heads.pool import Pooler
from bertworks.layers.embeddings import Embeddings
from bertworks.layers.positions import LearnedPositions, after_padding
from bertworks.layers.stack import Stack
from bertworks.weights.names import NameTable, Row, module

from .bert import decoder_rows, encoder_rows, task_rows
from .config import ENCODER_KEYS, EncoderConfig, Key, rows_with
from .encoder import Encoder
from .parts import PLAIN_HEADS, Architecture, Shape, post_norm_block


@dataclass(frozen=True)
class RobertaConfig(EncoderConfig):
    """The defaults are RoBERTa-base's. `positions` counts the pad_id + 1 rows that no token uses."""

    vocab_size: int = 50265
    positions: int = 514
    segments: int = 1
    norm_eps: float = 1e-5
    init: str = "normal"
    pad_id: int | None = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pad_id is None:
            raise ConfigError(
                "RoBERTa counts positions from its padding id; none is set", "set pad_token_id (published: 1)"
            )

    @property
    def max_length(self) -> int:
        return self.positions - (self.pad_id or 0) - 1


def encoder(config: RobertaConfig, pooler: bool = True, way: str = "fused") -> Encoder:
    return around(Stack([post_norm_block(config, way) for _ in range(config.layers)]), config, pooler)


def around(stack: Stack, config: RobertaConfig, pooler: bool) -> Encoder:
    """Embeddings before a stack and a pooler after it; the pre-norm variant has another stack between the same."""
    width, pad_id = config.hidden_size, config.pad_id or 0
    return Encoder(
        Embeddings(
            config.vocab_size,
            width,
            LearnedPositions(config.positions, width, padding_idx=pad_id),
            config.segments,
            pad_id=pad_id,
            norm_eps=config.norm_eps,
            dropout=config.dropout,
        ),
        stack,
        partial(after_padding, pad_id=pad_id),
        Pooler(width) if pooler else None,
    )


def masked_lm(config: RobertaConfig) -> MaskedLM:
    """Its activation is the erf gelu, whatever the blocks use."""
    width = config.hidden_size
    return MaskedLM(width, width, config.vocab_size, "gelu", config.norm_eps, config.tied)


def classify(config: RobertaConfig) -> DenseClassifier:
    return DenseClassifier(config.hidden_size, len(config.labels), config.head_dropout)


def names(config: RobertaConfig, heads: tuple[str, ...]) -> NameTable:
    return NameTable("roberta.", [*encoder_rows("roberta.", config), *head_rows(config, heads)])


def head_rows(config: RobertaConfig, heads: tuple[str, ...]) -> list[Row]:
    return [
        *module("lm_head.dense", "heads.masked_lm.dense"),
        *module("lm_head.layer_norm", "heads.masked_lm.norm"),
        *decoder_rows("lm_head.decoder", "lm_head.bias", config.tied),
        *module("classifier.dense", "heads.classify.dense"),
        *module("classifier.out_proj", "heads.classify.scores"),
        *task_rows(tuple(head for head in heads if head != "classify") or ("tag",)),
    ]


BASE = RobertaConfig()

ROBERTA = Architecture(
    name="roberta",
    config=RobertaConfig,
    # What a config.json without the key means is transformers' default, not the published size's value.
    keys=rows_with(ENCODER_KEYS, Key("vocab_size", "vocab_size", 50265), Key("pad_id", "pad_token_id", 1)),
    shapes={
        "RobertaModel": Shape(),
        "RobertaForMaskedLM": Shape(("masked_lm",), pooler=False),
        "RobertaForSequenceClassification": Shape(("classify",), pooler=False),
        "RobertaForTokenClassification": Shape(("tag",), pooler=False),
        "RobertaForQuestionAnswering": Shape(("answer",), pooler=False),
        "RobertaForMultipleChoice": Shape(("choose",)),
    },
    sizes={
        "roberta-base": BASE,
        "roberta-large": BASE.but(hidden_size=1024, layers=24, heads=16, intermediate_size=4096),
    },
    encoder=encoder,
    heads={
        **{name: PLAIN_HEADS[name] for name in ("tag", "answer", "choose")},
        "masked_lm": masked_lm,
        "classify": classify,
    },
    names=names,
)
