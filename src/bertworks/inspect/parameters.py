"""Parameters by part, as one derives them on paper: a formula, its numbers, its value."""

from __future__ import annotations

from dataclasses import dataclass

from bertworks.models.albert import AlbertConfig
from bertworks.models.config import EncoderConfig
from bertworks.models.modernbert_config import ModernBertConfig


@dataclass(frozen=True)
class Part:
    """`times` copies of a part; `formula` in the letters of `letters`, `count` for all copies."""

    name: str
    formula: str
    times: int
    each: int

    @property
    def count(self) -> int:
        return self.times * self.each


def letters(config: EncoderConfig) -> dict[str, int]:
    """The letters of the formulas. E is the embeddings' size: H but for ALBERT."""
    return {
        "V": config.vocab_size,
        "P": config.positions,
        "S": config.segments,
        "E": embedding_size(config),
        "H": config.hidden_size,
        "F": config.intermediate_size,
        "C": len(config.labels),
    }


def embedding_size(config: EncoderConfig) -> int:
    return config.embedding_size if isinstance(config, AlbertConfig) else config.hidden_size


def blocks(config: EncoderConfig) -> int:
    """How many layers have weights of their own."""
    return config.groups * config.inner_layers if isinstance(config, AlbertConfig) else config.layers


def steps(config: EncoderConfig) -> int:
    """How many layers a token passes through."""
    return config.layers * (config.inner_layers if isinstance(config, AlbertConfig) else 1)


def gated(config: EncoderConfig) -> bool:
    """Whether the feed-forward has a gate: three matrices, not two."""
    return isinstance(config, ModernBertConfig)


FORMULAS: dict[str, str] = {
    "embeddings.tokens": "V*E",
    "embeddings.positions": "P*E",
    "embeddings.segments": "S*E",
    "embeddings.norm": "2*E",
    "embeddings.projection": "E*H + H",
    "layer.attention": "4*(H*H + H)",
    "layer.feedforward": "2*H*F + F + H",
    "layer.norms": "2*2*H",
    "final_norm": "2*H",
    "pooler": "H*H + H",
}
HEAD_FORMULAS: dict[str, str] = {
    "masked_lm": "H*E + E + 2*E + V",
    "next_sentence": "2*H + 2",
    "sentence_order": "2*H + 2",
    "classify": "C*H + C",
    "tag": "C*H + C",
    "answer": "2*H + 2",
    "choose": "H + 1",
}
# RoBERTa's classifier has a dense layer of its own before the scores; this is what differs by family.
ROBERTA_HEADS = {"classify": "H*H + H + C*H + C"}
HEADS_OF: dict[str, dict[str, str]] = {"roberta": ROBERTA_HEADS, "roberta-prelayernorm": ROBERTA_HEADS}
# Parts that every layer but the first has.
AFTER_FIRST = ("layer_after_first.norms",)
# Stacks of pre-norm layers, which one more norm closes.
PRE_NORM = ("roberta-prelayernorm",)


def parts(family: str, config: EncoderConfig, heads: tuple[str, ...] = (), pooler: bool = True) -> list[Part]:
    """Every part that holds parameters, in the order data meets them."""
    values = letters(config)

    def part(name: str, formula: str, times: int = 1) -> Part:
        # The formulas are the constants above; only the letters vary.
        return Part(name, formula, times, _evaluate(formula, values))

    found = []
    body, of_heads = FORMULAS, HEADS_OF.get(family, {})
    if isinstance(config, ModernBertConfig):
        body, of_heads = _modernbert(config), _modernbert_heads(config)
    for name, formula in body.items():
        if name == "embeddings.projection" and not isinstance(config, AlbertConfig):
            continue
        if name == "final_norm" and body is FORMULAS and family not in PRE_NORM:
            continue
        if name == "pooler" and not pooler:
            continue
        times = blocks(config) if name.startswith("layer.") else config.layers - 1 if name in AFTER_FIRST else 1
        found.append(part(name, formula, times))
    for head in heads:
        formula = of_heads.get(head, HEAD_FORMULAS[head])
        if head == "masked_lm" and not config.tied:
            formula += " + V*E"
        found.append(part(f"heads.{head}", formula))
    return found


def _modernbert(config: ModernBertConfig) -> dict[str, str]:
    """Three matrices in the feed-forward, few biases, and one norm fewer in the first layer."""
    norm = "2*H" if config.norm_bias else "H"
    return {
        "embeddings.tokens": "V*E",
        "embeddings.norm": norm,
        "layer.attention": "4*(H*H + H)" if config.attention_bias else "4*H*H",
        "layer.feedforward": "3*H*F + 2*F + H" if config.feedforward_bias else "3*H*F",
        "layer.norms": norm,
        "layer_after_first.norms": norm,
        "final_norm": norm,
    }


def _modernbert_heads(config: ModernBertConfig) -> dict[str, str]:
    dense = "H*H" + (" + H" if config.head_bias else "") + (" + 2*H" if config.norm_bias else " + H")
    scores = {name: f"{dense} + {HEAD_FORMULAS[name]}" for name in ("classify", "tag", "answer", "choose")}
    return scores | {"masked_lm": dense + (" + V" if config.decoder_bias else "")}


def summary(found: list[Part]) -> dict[str, int]:
    """The totals that `inspect --json` gives. `total` is the encoder with its pooler, without heads."""

    def add(prefix: str, each: bool = False) -> int:
        return sum(part.each if each else part.count for part in found if part.name.startswith(prefix))

    heads = add("heads.")
    everything = sum(part.count for part in found)
    return {
        "total": everything - heads,
        "embeddings": add("embeddings."),
        "encoder": add("layer") + add("final_norm"),
        "layer": add("layer", each=True),
        "attention": add("layer.attention"),
        "feedforward": add("layer.feedforward"),
        "norms": add("layer.norms") + sum(map(add, AFTER_FIRST)) + add("embeddings.norm") + add("final_norm"),
        "pooler": add("pooler"),
        "heads": heads,
        "total_with_heads": everything,
    }


def _evaluate(formula: str, values: dict[str, int]) -> int:
    """Sums of products, with one level of brackets: 4*(H*H + H)."""
    if "(" in formula:
        factor, _, inner = formula.partition("*(")
        return int(factor) * _evaluate(inner.rstrip(")"), values)
    total = 0
    for term in formula.split(" + "):
        product = 1
        for factor in term.split("*"):
            product *= values[factor] if factor in values else int(factor)
        total += product
    return total
