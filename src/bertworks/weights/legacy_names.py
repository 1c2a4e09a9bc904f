"""The tensors of TensorFlow checkpoints of BERT and ALBERT: their names there and in Hugging Face, and their shapes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

# bert and albert as Google wrote them; factorised and early: see `legacy`.
Layout = Literal["bert", "factorised", "albert", "early"]


@dataclass(frozen=True)
class Row:
    """One tensor: TensorFlow's name, Hugging Face's, and there its shape, in letters of SIZES."""

    tensorflow: str
    name: str
    shape: str
    transposed: bool = False


def table(tensorflow: str, name: str, shape: str) -> list[Row]:
    return [Row(tensorflow, f"{name}.weight", shape)]


def linear(tensorflow: str, name: str, shape: str) -> list[Row]:
    """A dense layer: TensorFlow's kernel is [in, out], torch's weight [out, in]."""
    weight = Row(f"{tensorflow}/kernel", f"{name}.weight", shape, transposed=True)
    return [weight, Row(f"{tensorflow}/bias", f"{name}.bias", shape[0])]


def norm(tensorflow: str, name: str, shape: str) -> list[Row]:
    return [
        Row(f"{tensorflow}/gamma", f"{name}.weight", shape),
        Row(f"{tensorflow}/beta", f"{name}.bias", shape),
    ]


# One layer, as in Google's BERT and ALBERT, Hugging Face's BERT and ALBERT; [out, in] of a linear, or a norm.
LAYER = (
    ("attention/self/query", "attention_1/self/query", "attention.self.query", "attention.query", "HH"),
    ("attention/self/key", "attention_1/self/key", "attention.self.key", "attention.key", "HH"),
    ("attention/self/value", "attention_1/self/value", "attention.self.value", "attention.value", "HH"),
    ("attention/output/dense", "attention_1/output/dense", "attention.output.dense", "attention.dense", "HH"),
    ("attention/output/LayerNorm", "LayerNorm", "attention.output.LayerNorm", "attention.LayerNorm", "H"),
    ("intermediate/dense", "ffn_1/intermediate/dense", "intermediate.dense", "ffn", "IH"),
    ("output/dense", "ffn_1/intermediate/output/dense", "output.dense", "ffn_output", "HI"),
    ("output/LayerNorm", "LayerNorm_1", "output.LayerNorm", "full_layer_layer_norm", "H"),
)


def rows_of(layout: Layout, config: Mapping[str, Any], shared: bool) -> dict[str, list[Row]]:
    """The rows of each part. The body must be there; of a head, all or nothing.

    `shared`: early ALBERT's one layer, called `layer_shared`, stands for all.
    """
    albert = config["model_type"] == "albert"
    root, head = ("albert", "predictions") if albert else ("bert", "cls.predictions")
    width = "E" if albert else "H"
    body = table("bert/embeddings/word_embeddings", f"{root}.embeddings.word_embeddings", "V" + width)
    if layout == "early":
        second = "embeddings.word_embeddings_2.weight"
        body = table("bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings", "VE")
        body.append(Row("bert/embeddings/word_embeddings_2", f"bert.{second}", "HE", transposed=True))
    body += table("bert/embeddings/position_embeddings", f"{root}.embeddings.position_embeddings", "P" + width)
    body += table("bert/embeddings/token_type_embeddings", f"{root}.embeddings.token_type_embeddings", "T" + width)
    body += norm("bert/embeddings/LayerNorm", f"{root}.embeddings.LayerNorm", width)
    if albert:
        mapping = "encoder.embedding_hidden_mapping_in"
        body += linear("bert/encoder/embedding_hidden_mapping_in", f"albert.{mapping}", "HE")
    for old, new in layers(layout, config, shared):
        for in_bert, in_albert, to_bert, to_albert, shape in LAYER:
            make = linear if len(shape) == 2 else norm
            source = in_albert if layout == "albert" else in_bert
            body += make(f"bert/encoder/{old}/{source}", f"{new}.{to_albert if albert else to_bert}", shape)
    transform = head if albert else f"{head}.transform"
    pair = "sop_classifier.classifier" if albert else "cls.seq_relationship"
    return {
        "body": body,
        "pooler": linear("bert/pooler/dense", "albert.pooler" if albert else "bert.pooler.dense", "HH"),
        "masked": [
            *linear("cls/predictions/transform/dense", f"{transform}.dense", width + "H"),
            *norm("cls/predictions/transform/LayerNorm", f"{transform}.LayerNorm", width),
            Row("cls/predictions/output_bias", f"{head}.bias", "V"),
        ],
        "pair": [  # not a dense layer there: the weights are [2, H] in both
            Row("cls/seq_relationship/output_weights", f"{pair}.weight", "2H"),
            Row("cls/seq_relationship/output_bias", f"{pair}.bias", "2"),
        ],
    }


def layers(layout: Layout, config: Mapping[str, Any], shared: bool) -> Iterable[tuple[str, str]]:
    """Each layer's place: (TensorFlow's, Hugging Face's)."""
    if layout == "albert":
        for group in range(config["num_hidden_groups"]):
            for inner in range(config["inner_group_num"]):
                new = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
                yield f"transformer/group_{group}/inner_group_{inner}", new
    elif layout == "factorised":
        for layer in range(config["num_hidden_layers"]):
            yield f"layer_{layer}", f"albert.encoder.albert_layer_groups.{layer}.albert_layers.0"
    elif shared:
        yield "layer_shared", "bert.encoder.layer.0"
    else:
        for layer in range(config["num_hidden_layers"]):
            yield f"layer_{layer}", f"bert.encoder.layer.{layer}"
