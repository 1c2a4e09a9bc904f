"""ALBERT (Lan et al., 2019): factorised embeddings, one group of layers looped, sentence order, the tanh gelu."""

from __future__ import annotations

from dataclasses import dataclass

from bertworks.errors import ConfigError
from bertworks.heads.masked_lm import MaskedLM
from bertworks.heads.pair import Pair
from bertworks.heads.pool import Pooler
from bertworks.layers.embeddings import Embeddings
from bertworks.layers.positions import LearnedPositions, counted
from bertworks.layers.stack import SharedStack
from bertworks.weights.names import NameTable, Row, dropped, module, same

from .bert import decoder_rows, task_rows
from .config import ENCODER_KEYS, EncoderConfig, Key, rows_with
from .encoder import Encoder
from .parts import PLAIN_HEADS, Architecture, Shape, post_norm_block


@dataclass(frozen=True)
class AlbertConfig(EncoderConfig):
    """The defaults are ALBERT-base v2's."""

    vocab_size: int = 30000
    embedding_size: int = 128
    activation: str = "gelu-tanh"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    classifier_dropout: float | None = 0.1
    groups: int = 1
    inner_layers: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.embedding_size < 1 or self.inner_layers < 1 or not 1 <= self.groups <= self.layers:
            raise ConfigError(
                f"embedding_size {self.embedding_size}, groups {self.groups}, inner_layers {self.inner_layers} "
                f"do not make an ALBERT of {self.layers} layers",
                "all are 1 or more, and there are no more groups than layers",
            )


def encoder(config: AlbertConfig, pooler: bool = True, way: str = "fused") -> Encoder:
    size, width = config.embedding_size, config.hidden_size
    return Encoder(
        Embeddings(
            config.vocab_size,
            size,
            LearnedPositions(config.positions, size),
            config.segments,
            width=width,
            pad_id=config.pad_id,
            norm_eps=config.norm_eps,
            dropout=config.dropout,
        ),
        SharedStack(lambda: post_norm_block(config, way), config.layers, config.groups, config.inner_layers),
        counted,
        Pooler(width) if pooler else None,
    )


def masked_lm(config: AlbertConfig) -> MaskedLM:
    """Back to the embeddings' size before the decoder, which is the embedding table."""
    return MaskedLM(
        config.hidden_size,
        config.embedding_size,
        config.vocab_size,
        config.activation,
        config.norm_eps,
        config.tied,
    )


def sentence_order(config: AlbertConfig) -> Pair:
    return Pair(config.hidden_size, config.head_dropout)


def names(config: AlbertConfig, heads: tuple[str, ...]) -> NameTable:
    rows = [
        same("albert.embeddings.word_embeddings.weight", "encoder.embeddings.tokens.weight"),
        same("albert.embeddings.position_embeddings.weight", "encoder.embeddings.positions.weight"),
        same("albert.embeddings.token_type_embeddings.weight", "encoder.embeddings.segments.weight"),
        *module("albert.embeddings.LayerNorm", "encoder.embeddings.norm"),
        dropped("albert.embeddings.position_ids"),
        dropped("albert.embeddings.token_type_ids"),
        *module("albert.encoder.embedding_hidden_mapping_in", "encoder.embeddings.projection"),
    ]
    for block in range(config.groups * config.inner_layers):
        group, inner = divmod(block, config.inner_layers)
        theirs = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        rows += block_rows(theirs, f"encoder.stack.blocks.{block}")
    rows += [
        *module("albert.pooler", "encoder.pooler.dense"),
        *module("predictions.dense", "heads.masked_lm.dense"),
        *module("predictions.LayerNorm", "heads.masked_lm.norm"),
        *decoder_rows("predictions.decoder", "predictions.bias", config.tied),
        *module("sop_classifier.classifier", "heads.sentence_order.scores"),
        *task_rows(heads),
    ]
    return NameTable("albert.", rows)


def block_rows(theirs: str, ours: str) -> list[Row]:
    return [
        *module(f"{theirs}.attention.query", f"{ours}.attention.query"),
        *module(f"{theirs}.attention.key", f"{ours}.attention.key"),
        *module(f"{theirs}.attention.value", f"{ours}.attention.value"),
        *module(f"{theirs}.attention.dense", f"{ours}.attention.out"),
        *module(f"{theirs}.attention.LayerNorm", f"{ours}.attention_norm"),
        *module(f"{theirs}.ffn", f"{ours}.feedforward.up"),
        *module(f"{theirs}.ffn_output", f"{ours}.feedforward.down"),
        *module(f"{theirs}.full_layer_layer_norm", f"{ours}.feedforward_norm"),
    ]


# ALBERT, published by size: v2 trained without dropout; v1 with it, but for xxlarge.
BASE = AlbertConfig()
LARGE = BASE.but(hidden_size=1024, layers=24, heads=16, intermediate_size=4096)
XLARGE = BASE.but(hidden_size=2048, layers=24, heads=16, intermediate_size=8192)
XXLARGE = BASE.but(hidden_size=4096, layers=12, heads=64, intermediate_size=16384)
V1_DROPOUT = {"dropout": 0.1, "attention_dropout": 0.1}

ALBERT = Architecture(
    name="albert",
    config=AlbertConfig,
    keys=rows_with(
        ENCODER_KEYS,
        Key("vocab_size", "vocab_size", 30000),
        Key("embedding_size", "embedding_size", 128),
        Key("hidden_size", "hidden_size", 4096),
        Key("heads", "num_attention_heads", 64),
        Key("intermediate_size", "intermediate_size", 16384),
        Key("groups", "num_hidden_groups", 1),
        Key("inner_layers", "inner_group_num", 1),
        Key("activation", "hidden_act", "gelu_new"),
        Key("dropout", "hidden_dropout_prob", 0.0),
        Key("attention_dropout", "attention_probs_dropout_prob", 0.0),
        Key("classifier_dropout", "classifier_dropout_prob", 0.1),
    ),
    shapes={
        "AlbertModel": Shape(),
        "AlbertForPreTraining": Shape(("masked_lm", "sentence_order")),
        "AlbertForMaskedLM": Shape(("masked_lm",), pooler=False),
        "AlbertForSequenceClassification": Shape(("classify",)),
        "AlbertForTokenClassification": Shape(("tag",), pooler=False),
        "AlbertForQuestionAnswering": Shape(("answer",), pooler=False),
        "AlbertForMultipleChoice": Shape(("choose",)),
    },
    sizes={
        "albert-base-v1": BASE.but(**V1_DROPOUT),
        "albert-large-v1": LARGE.but(**V1_DROPOUT),
        "albert-xlarge-v1": XLARGE.but(**V1_DROPOUT),
        "albert-xxlarge-v1": XXLARGE,
        "albert-base-v2": BASE,
        "albert-large-v2": LARGE,
        "albert-xlarge-v2": XLARGE,
        "albert-xxlarge-v2": XXLARGE,
    },
    encoder=encoder,
    heads={
        **{name: PLAIN_HEADS[name] for name in ("classify", "tag", "answer", "choose")},
        "masked_lm": masked_lm,
        "sentence_order": sentence_order,
    },
    names=names,
)
