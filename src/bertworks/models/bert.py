"""BERT (Devlin et al., 2018): learned positions and segments added to token embeddings, post-norm blocks, a pooler.

Positions are absolute and added to the embeddings; nothing relative happens inside attention.
"""

from __future__ import annotations

from bertworks.heads.masked_lm import MaskedLM
from bertworks.heads.pool import Pooler
from bertworks.layers.embeddings import Embeddings
from bertworks.layers.positions import LearnedPositions, counted
from bertworks.layers.stack import Stack
from bertworks.weights.names import NameTable, Row, dropped, module, same

from .config import ENCODER_KEYS, EncoderConfig
from .encoder import Encoder
from .parts import PLAIN_HEADS, Architecture, Shape, post_norm_block


def encoder(config: EncoderConfig, pooler: bool = True, way: str = "fused") -> Encoder:
    width = config.hidden_size
    return Encoder(
        Embeddings(
            config.vocab_size,
            width,
            LearnedPositions(config.positions, width),
            config.segments,
            pad_id=config.pad_id,
            norm_eps=config.norm_eps,
            dropout=config.dropout,
        ),
        Stack([post_norm_block(config, way) for _ in range(config.layers)]),
        counted,
        Pooler(width) if pooler else None,
    )


def masked_lm(config: EncoderConfig) -> MaskedLM:
    return MaskedLM(
        config.hidden_size,
        config.hidden_size,
        config.vocab_size,
        config.activation,
        config.norm_eps,
        config.tied,
    )


def encoder_rows(
    prefix: str,
    config: EncoderConfig,
    attention_norm: str = "attention.output.LayerNorm",
    feedforward_norm: str = "output.LayerNorm",
) -> list[Row]:
    """The encoder's rows, which RoBERTa shares under its own prefix; a layer's norms are named for where they stand."""
    rows = [
        same(f"{prefix}embeddings.word_embeddings.weight", "encoder.embeddings.tokens.weight"),
        same(f"{prefix}embeddings.position_embeddings.weight", "encoder.embeddings.positions.weight"),
        same(f"{prefix}embeddings.token_type_embeddings.weight", "encoder.embeddings.segments.weight"),
        *module(f"{prefix}embeddings.LayerNorm", "encoder.embeddings.norm"),
        dropped(f"{prefix}embeddings.position_ids"),
        dropped(f"{prefix}embeddings.token_type_ids"),
    ]
    for i in range(config.layers):
        theirs, ours = f"{prefix}encoder.layer.{i}", f"encoder.stack.blocks.{i}"
        for part in ("query", "key", "value"):
            rows += module(f"{theirs}.attention.self.{part}", f"{ours}.attention.{part}")
        rows += module(f"{theirs}.attention.output.dense", f"{ours}.attention.out")
        rows += module(f"{theirs}.{attention_norm}", f"{ours}.attention_norm")
        rows += module(f"{theirs}.intermediate.dense", f"{ours}.feedforward.up")
        rows += module(f"{theirs}.output.dense", f"{ours}.feedforward.down")
        rows += module(f"{theirs}.{feedforward_norm}", f"{ours}.feedforward_norm")
    return rows + module(f"{prefix}pooler.dense", "encoder.pooler.dense")


def decoder_rows(decoder: str, bias: str, tied: bool) -> list[Row]:
    """A tied decoder is the embedding table under a second name: read past, never written.

    Its bias has two names too. transformers computes with the decoder's; untied, it keeps both as parameters.
    """
    return [
        dropped(f"{decoder}.weight") if tied else same(f"{decoder}.weight", "heads.masked_lm.decoder"),
        same(bias, "heads.masked_lm.bias", f"{decoder}.bias", write_aliases=not tied),
    ]


def task_rows(heads: tuple[str, ...]) -> list[Row]:
    """The rows of fine-tuned heads. All of Hugging Face's classifiers share one name; the class says which it is."""
    classifier = next((head for head in ("classify", "tag", "choose") if head in heads), "classify")
    return [
        *module("classifier", f"heads.{classifier}.scores"),
        *module("qa_outputs", "heads.answer.scores"),
    ]


def names(config: EncoderConfig, heads: tuple[str, ...]) -> NameTable:
    lm = "cls.predictions"
    return NameTable(
        "bert.",
        [
            *encoder_rows("bert.", config),
            *module(f"{lm}.transform.dense", "heads.masked_lm.dense"),
            *module(f"{lm}.transform.LayerNorm", "heads.masked_lm.norm"),
            *decoder_rows(f"{lm}.decoder", f"{lm}.bias", config.tied),
            *module("cls.seq_relationship", "heads.next_sentence.scores"),
            *task_rows(heads),
        ],
    )


BASE = EncoderConfig()
LARGE = BASE.but(hidden_size=1024, layers=24, heads=16, intermediate_size=4096)


def miniature(width: int, layers: int) -> EncoderConfig:
    """Google's miniatures (Turc et al., 2019): a head for every 64 of width, the feed-forward four times as wide."""
    return BASE.but(hidden_size=width, layers=layers, heads=width // 64, intermediate_size=4 * width)


BERT = Architecture(
    name="bert",
    config=EncoderConfig,
    keys=ENCODER_KEYS,
    shapes={
        "BertModel": Shape(),
        "BertForPreTraining": Shape(("masked_lm", "next_sentence")),
        "BertForMaskedLM": Shape(("masked_lm",), pooler=False),
        "BertForNextSentencePrediction": Shape(("next_sentence",)),
        "BertForSequenceClassification": Shape(("classify",)),
        "BertForTokenClassification": Shape(("tag",), pooler=False),
        "BertForQuestionAnswering": Shape(("answer",), pooler=False),
        "BertForMultipleChoice": Shape(("choose",)),
    },
    sizes={
        "bert-tiny": miniature(128, 2),
        "bert-mini": miniature(256, 4),
        "bert-small": miniature(512, 4),
        "bert-medium": miniature(512, 8),
        "bert-base-uncased": BASE,
        "bert-base-cased": BASE.but(vocab_size=28996),
        "bert-base-chinese": BASE.but(vocab_size=21128),
        "bert-base-multilingual-cased": BASE.but(vocab_size=119547),
        "bert-base-multilingual-uncased": BASE.but(vocab_size=105879),
        "bert-large-uncased": LARGE,
        "bert-large-cased": LARGE.but(vocab_size=28996),
        "bert-large-uncased-whole-word-masking": LARGE,
        "bert-large-cased-whole-word-masking": LARGE.but(vocab_size=28996),
    },
    encoder=encoder,
    heads={**PLAIN_HEADS, "masked_lm": masked_lm},
    names=names,
)
