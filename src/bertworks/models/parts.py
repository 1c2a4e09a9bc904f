"""What the families build alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from bertworks.errors import ConfigError
from bertworks.heads.choice import Choice
from bertworks.heads.classify import PooledClassifier
from bertworks.heads.pair import Pair
from bertworks.heads.span import Span
from bertworks.heads.tag import Tag
from bertworks.layers.attention import Attention
from bertworks.layers.blocks import PostNormBlock, PreNormBlock
from bertworks.layers.feedforward import FeedForward
from bertworks.weights.names import NameTable

from .config import EncoderConfig, Key
from .encoder import Encoder, Model, wants_pooled


@dataclass(frozen=True)
class Shape:
    """What one of Hugging Face's classes holds beside the encoder."""

    heads: tuple[str, ...] = ()
    pooler: bool = True


@dataclass(frozen=True)
class Architecture:
    """One family, as rows: how to configure it, build it and name its tensors, and the sizes it was published in."""

    name: str  # model_type in config.json
    config: type[EncoderConfig]
    keys: tuple[Key, ...]
    shapes: Mapping[str, Shape]  # by Hugging Face's class name
    sizes: Mapping[str, EncoderConfig]
    encoder: Callable[[Any, bool, str], Encoder]
    heads: Mapping[str, Callable[[Any], nn.Module]]
    names: Callable[[Any, tuple[str, ...]], NameTable]

    def build(
        self,
        config: EncoderConfig,
        heads: tuple[str, ...] = (),
        pooler: bool | None = None,
        way: str = "fused",
    ) -> Model:
        """The model with the named heads; with a pooler where a head reads it, or no head is named."""
        for name in heads:
            if name not in self.heads:
                raise ConfigError(f"{self.name} has no head {name!r}", f"known: {', '.join(self.heads)}")
        made = {name: self.heads[name](config) for name in heads}
        if pooler is None:
            pooler = not made or any(wants_pooled(head) for head in made.values())
        return Model(self.encoder(config, pooler, way), made)

    def shape_name(self, heads: tuple[str, ...], pooler: bool) -> str:
        """Hugging Face's class for these heads."""
        fits = [name for name, shape in self.shapes.items() if set(shape.heads) == set(heads)]
        if not fits:
            raise ConfigError(
                f"no {self.name} class of transformers holds {' and '.join(heads)}",
                "save with fewer heads",
            )
        exact = [name for name in fits if self.shapes[name].pooler == pooler]
        return (exact or fits)[0]


def post_norm_block(config: EncoderConfig, way: str) -> PostNormBlock:
    """One layer as BERT has it."""
    return PostNormBlock(*_sublayers(config, way), config.norm_eps, config.dropout)


def pre_norm_block(config: EncoderConfig, way: str) -> PreNormBlock:
    """The same layer with its norms first; the stack then wants a norm at its end."""
    return PreNormBlock(*_sublayers(config, way), config.norm_eps, config.dropout)


def _sublayers(config: EncoderConfig, way: str) -> tuple[Attention, FeedForward]:
    return (
        Attention(config.hidden_size, config.heads, config.attention_dropout, way),
        FeedForward(config.hidden_size, config.intermediate_size, config.activation),
    )


# Heads that are alike in all families.
PLAIN_HEADS: dict[str, Callable[[EncoderConfig], nn.Module]] = {
    "next_sentence": lambda config: Pair(config.hidden_size),
    "classify": lambda config: PooledClassifier(config.hidden_size, len(config.labels), config.head_dropout),
    "tag": lambda config: Tag(config.hidden_size, len(config.labels), config.head_dropout),
    "answer": lambda config: Span(config.hidden_size),
    "choose": lambda config: Choice(config.hidden_size, config.head_dropout),
}
