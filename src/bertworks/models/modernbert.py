"""ModernBERT (Warner et al., 2024): rotary positions, gates in the feed-forward, two local layers in three.

It has no position vectors, no segments, no pooler and hardly a bias. Each global layer sees the whole text; a local one
sees `window` // 2 tokens to either side, and its positions turn faster. The first layer's attention has no
norm before it, since the embeddings end with one.
"""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from bertworks.heads.masked_lm import MaskedLM
from bertworks.heads.pool import first, first_real, mean
from bertworks.heads.transform import TextScores, TokenScores, Transform
from bertworks.layers.attention import Attention
from bertworks.layers.blocks import PreNormBlock
from bertworks.layers.embeddings import Embeddings
from bertworks.layers.feedforward import GatedFeedForward
from bertworks.layers.init import scaled
from bertworks.layers.positions import counted
from bertworks.layers.rotary import Rotary
from bertworks.layers.stack import Scope, Stack
from bertworks.weights.names import NameTable, Row, dropped, fused, module, same

from .encoder import Encoder
from .modernbert_config import GLOBAL, LOCAL, MODERNBERT_KEYS, ModernBertConfig
from .parts import Architecture, Shape

Head = TypeVar("Head", TokenScores, TextScores)


def encoder(config: ModernBertConfig, pooler: bool = False, way: str = "fused") -> Encoder:  # noqa: ARG001 (has none)
    blocks = [block(config, way) for _ in range(config.layers)]
    blocks[0].attention_norm = nn.Identity()
    depth = config.hidden_size // config.heads
    scopes = {
        GLOBAL: Scope(Rotary(depth, config.rope_theta)),
        LOCAL: Scope(Rotary(depth, config.local_rope_theta), config.window // 2),
    }
    return Encoder(
        Embeddings(
            config.vocab_size,
            config.hidden_size,
            pad_id=config.pad_id,
            norm_eps=config.norm_eps,
            dropout=config.dropout,
            norm_bias=config.norm_bias,
        ),
        Stack(
            blocks,
            final_norm=nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=config.norm_bias),
            scopes=[scopes[kind] for kind in config.attends],
        ),
        counted,
    )


def block(config: ModernBertConfig, way: str) -> PreNormBlock:
    """What writes to the residual path begins narrower the more layers write to it."""
    attention = Attention(
        config.hidden_size,
        config.heads,
        config.attention_dropout,
        way,
        bias=config.attention_bias,
        out_dropout=config.attention_dropout,
    )
    feedforward = GatedFeedForward(
        config.hidden_size,
        config.intermediate_size,
        config.activation,
        config.feedforward_bias,
        config.feedforward_dropout,
    )
    for layer in (attention.out, feedforward.down):
        scaled(layer, narrowed(config))
    return PreNormBlock(attention, feedforward, config.norm_eps, norm_bias=config.norm_bias)


def narrowed(config: ModernBertConfig) -> float:
    return float((2 * config.layers) ** -0.5)


def masked_lm(config: ModernBertConfig) -> MaskedLM:
    head = MaskedLM(
        config.hidden_size,
        config.hidden_size,
        config.vocab_size,
        config.head_activation,
        config.norm_eps,
        config.tied,
        dense_bias=config.head_bias,
        norm_bias=config.norm_bias,
        decoder_bias=config.decoder_bias,
    )
    scaled(head.dense, narrowed(config))
    return head


def transform(config: ModernBertConfig) -> Transform:
    part = Transform(config.hidden_size, config.head_activation, config.norm_eps, config.head_bias, config.norm_bias)
    scaled(part.dense, narrowed(config))
    return part


def classify(config: ModernBertConfig) -> TextScores:
    pooling = mean if config.pooling == "mean" else first
    return last_of(config, TextScores(transform(config), len(config.labels), config.head_dropout, pooling))


def choose(config: ModernBertConfig) -> TextScores:
    """transformers looks for the first real token here, and for the first of all in `classify`."""
    pooling = mean if config.pooling == "mean" else first_real
    return last_of(config, TextScores(transform(config), 1, config.head_dropout, pooling))


def tag(config: ModernBertConfig) -> TokenScores:
    return last_of(config, TokenScores(transform(config), len(config.labels), config.head_dropout))


def answer(config: ModernBertConfig) -> TokenScores:
    return last_of(config, TokenScores(transform(config), 2, config.head_dropout))


def last_of(config: ModernBertConfig, head: Head) -> Head:
    """A head whose scores begin as wide as its input is long."""
    scaled(head.scores, config.hidden_size**-0.5 / config.init_std)
    return head


def names(config: ModernBertConfig, heads: tuple[str, ...]) -> NameTable:
    rows = [
        same("model.embeddings.tok_embeddings.weight", "encoder.embeddings.tokens.weight"),
        *module("model.embeddings.norm", "encoder.embeddings.norm", config.norm_bias),
        *module("model.final_norm", "encoder.stack.final_norm", config.norm_bias),
    ]
    for i in range(config.layers):
        rows += block_rows(f"model.layers.{i}", f"encoder.stack.blocks.{i}", config, first=i == 0)
    return NameTable("model.", [*rows, *head_rows(config, heads)])


def block_rows(theirs: str, ours: str, config: ModernBertConfig, first: bool) -> list[Row]:
    rows = [] if first else module(f"{theirs}.attn_norm", f"{ours}.attention_norm", config.norm_bias)
    for part in ("weight", "bias") if config.attention_bias else ("weight",):
        projections = [f"{ours}.attention.{name}.{part}" for name in ("query", "key", "value")]
        rows.append(fused(f"{theirs}.attn.Wqkv.{part}", *projections))
    return [
        *rows,
        *module(f"{theirs}.attn.Wo", f"{ours}.attention.out", config.attention_bias),
        *module(f"{theirs}.mlp_norm", f"{ours}.feedforward_norm", config.norm_bias),
        *module(f"{theirs}.mlp.Wi", f"{ours}.feedforward.up", config.feedforward_bias),
        *module(f"{theirs}.mlp.Wo", f"{ours}.feedforward.down", config.feedforward_bias),
    ]


def head_rows(config: ModernBertConfig, heads: tuple[str, ...]) -> list[Row]:
    """All tasks' heads share their names, dense layer and norm included; the class says which it is."""
    task = next((head for head in ("classify", "tag", "answer", "choose") if head in heads), None)
    dense = "heads.masked_lm" if task is None or "masked_lm" in heads else f"heads.{task}.transform"
    rows = [
        *module("head.dense", f"{dense}.dense", config.head_bias),
        *module("head.norm", f"{dense}.norm", config.norm_bias),
        *module("classifier", f"heads.{task or 'classify'}.scores"),
        dropped("decoder.weight") if config.tied else same("decoder.weight", "heads.masked_lm.decoder"),
    ]
    return [*rows, same("decoder.bias", "heads.masked_lm.bias")] if config.decoder_bias else rows


BASE = ModernBertConfig()

MODERNBERT = Architecture(
    name="modernbert",
    config=ModernBertConfig,
    keys=MODERNBERT_KEYS,
    shapes={
        "ModernBertModel": Shape(pooler=False),
        "ModernBertForMaskedLM": Shape(("masked_lm",), pooler=False),
        "ModernBertForSequenceClassification": Shape(("classify",), pooler=False),
        "ModernBertForTokenClassification": Shape(("tag",), pooler=False),
        "ModernBertForQuestionAnswering": Shape(("answer",), pooler=False),
        "ModernBertForMultipleChoice": Shape(("choose",), pooler=False),
    },
    sizes={
        "modernbert-base": BASE,
        "modernbert-large": BASE.but(hidden_size=1024, layers=28, heads=16, intermediate_size=2624),
    },
    encoder=encoder,
    heads={"masked_lm": masked_lm, "classify": classify, "tag": tag, "answer": answer, "choose": choose},
    names=names,
)
